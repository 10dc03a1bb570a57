# Claims of the text, with 176 µs per command, 9.5 per range, 8.8 per jump and 140.8 per MiB.
one_range = 9.5 + 8.8 + 140.8 / 64
for ranges, share in zip(RANGES, left["jasmine-4g"]):
    assert abs(share / 100 - (176 / ranges + one_range) / (176 + one_range)) < 0.002
assert all(times[preset, "unaligned"] > times[preset, "in order"] for preset in DRIVES)
