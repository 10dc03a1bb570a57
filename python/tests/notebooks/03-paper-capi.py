# What the text says is seen.
assert sorted(life, key=life.get) == ["GA", "CB", "CAT", "FeGC", "CAPi"]
assert min(copies, key=copies.get) == "CAPi"
