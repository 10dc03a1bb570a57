# Claims of the text.
assert len(cuts) == 8 and all(cut["verified"]["wrong"] == 0 for cut in cuts)
assert sum(older) > sum(newest) > 0
# Without flushes, and with one after 1000 requests: equal but for noise.
assert abs(programs[1] / programs[0] - 1) < 0.02
assert programs[1:] == sorted(programs[1:]) and programs[-1] > 1.5 * programs[0]


# The notebook has the experiment of examples/power-cut.toml. Recovery reads fewer pages with a flush after each request.
assert strobe.with_keys(BASE, {}).config_hash == strobe.with_keys(strobe.example("power-cut.toml"), {}).config_hash


def pages_read(every):
    cuts = strobe.run(strobe.with_keys(BASE, {"workload.flush_every": every}))["power_cuts"]
    return sum(cut["recovery"]["scanned_pages"] for cut in cuts) / len(cuts)


assert min(pages_read(0), pages_read(100)) > 3 * pages_read(1)
