import os, sys, time
folder = os.open(".", os.O_RDONLY)
if sys.argv[1] == "check":
    text = open("config").read() if os.path.exists("config") else "setting"
    sys.exit(0 if text.startswith("setting") else f"config is {text!r}")
for n in range(10):
    open("config.new", "w").write("setting %d" % n)
    os.rename("config.new", "config")
    os.fsync(folder)
    print(n, flush=True)
    time.sleep(0.6)
