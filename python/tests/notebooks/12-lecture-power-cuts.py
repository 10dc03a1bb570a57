# What the text says is seen.
assert len(cuts) == 8 and all(cut["verified"]["wrong"] == 0 for cut in cuts)
assert sum(older) > sum(newest) > 0
assert programs == sorted(programs) and programs[-1] > 1.5 * programs[0]
