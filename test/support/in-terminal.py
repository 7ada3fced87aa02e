"""Runs a program on a pseudo terminal: COLUMNS ROWS PROGRAM ARGUMENT...

Standard input and output are the terminal's other side. On descriptor 3 come lines: "COLUMNS ROWS" resizes, "?" asks; descriptor 4
gets "canonical echo" as 0 or 1 for each "?". Ends with the program's exit code, or 128 and its signal.
"""
import fcntl, os, select, signal, struct, sys, termios

columns, rows, argv = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
master, slave = os.openpty()


def resize(columns, rows):
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


resize(columns, rows)
pid = os.fork()
if pid == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in (0, 1, 2):
        os.dup2(slave, fd)
    os.closerange(3, 64)
    try:
        os.execvp(argv[0], argv)
    finally:
        os._exit(127)
os.close(slave)

watched = [0, 3, master]
lines = b""


def write(fd, data):
    while data:
        data = data[os.write(fd, data):]


while master in watched:
    for fd in select.select(watched, [], [])[0]:
        try:
            data = os.read(fd, 65536)
        except OSError:
            data = b""
        if not data:
            watched.remove(fd)
        elif fd == 0:
            write(master, data)
        elif fd == master:
            write(1, data)
        else:
            lines += data
            *whole, lines = lines.split(b"\n")
            for line in whole:
                if line == b"?":
                    flags = termios.tcgetattr(master)[3]
                    write(4, b"%d %d\n" % (bool(flags & termios.ICANON), bool(flags & termios.ECHO)))
                else:
                    resize(*map(int, line.split()))

status = os.waitpid(pid, 0)[1]
sys.exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))
