# What the text says is seen: a write that erases waits for that, most do not.
fast = [took for took, erased in slow if not erased]
late = [took for took, erased in slow if erased]
assert len(fast) > len(late) > 0 and max(fast) < 2 < 5 < min(late)
