# Claims of the text.
rollback, wal, lazy = ways.values()
assert round(rollback["requests"]["flush"] / COMMITS) == 4 and round(wal["requests"]["flush"] / COMMITS) == 2
assert lazy["requests"]["flush"] < COMMITS / 10
assert rollback["time"]["virtual_ns"] > wal["time"]["virtual_ns"] > lazy["time"]["virtual_ns"]
