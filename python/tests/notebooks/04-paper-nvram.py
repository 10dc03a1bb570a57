# Claims of the text.
before, after = seconds.values()
assert 0.6 < hot / writes.total() < 0.72
assert max(after[:3]) < 1.15 * min(after[:3]) and before[0] > 8 * max(before[1:3])
