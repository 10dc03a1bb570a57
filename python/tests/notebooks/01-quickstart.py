# Claims of the text.
assert 1.5 < result["waf"] < 2.5 and job["write"]["clat_ns"]["max"] > 60 * 2e6
