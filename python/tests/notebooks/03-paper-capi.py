# Claims of the text.
assert sorted(life, key=life.get) == ["GA", "CB", "CAT", "FeGC", "CAPi"]
assert min(copies, key=copies.get) == "CAPi"
