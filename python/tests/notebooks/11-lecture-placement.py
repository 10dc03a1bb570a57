# Claims of the text.
none, by_bit, dac, sepbit = (result["waf"] for result in results.values())
assert by_bit > 0.9 * none and max(dac, sepbit) < 0.8 * none
assert own["waf"] < none
