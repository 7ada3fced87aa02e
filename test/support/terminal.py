"""Runs a program at a terminal of its own, as an operator would: waits for texts, types answers, and looks whether echo is on again.

Arguments: a JSON object {"argv", "env", "stdin", "steps": [[text to wait for, what to type or {"signal": N} or {"close": true}], ...]}.
Prints one JSON object: {"screen", "echo", "exit", "signal", "argvSeen"}.
"""
import json, os, pty, select, signal, sys, termios, time

plan = json.loads(sys.argv[1])
stdin_read = None
if plan.get("stdin") is not None:
    stdin_read, stdin_write = os.pipe()
    os.write(stdin_write, plan["stdin"].encode())
    os.close(stdin_write)
# Kept open here, so that what the terminal is set to can be asked for after the program has ended.
master, slave = pty.openpty()
pid = os.fork()
if pid == 0:
    os.close(master)
    os.setsid()
    import fcntl
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    os.dup2(stdin_read if stdin_read is not None else slave, 0)
    os.dup2(slave, 1)
    os.dup2(slave, 2)
    os.execve(plan["argv"][0], plan["argv"], plan["env"])

screen = b""
position = 0
argv_seen = ""
deadline = time.monotonic() + 60


def read_some():
    global screen
    ready, _, _ = select.select([master], [], [], 0.1)
    if ready:
        screen += os.read(master, 65536)


def ended():
    global status
    found, status = os.waitpid(pid, os.WNOHANG)
    return found != 0


status = 0
is_over = False
for text, answer in plan["steps"]:
    while text.encode() not in screen[position:] and not is_over and time.monotonic() < deadline:
        read_some()
        is_over = ended()
    if is_over:
        break
    position = screen.index(text.encode(), position) + len(text)
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        argv_seen += file.read().replace(b"\0", b" ").decode()
    if isinstance(answer, str):
        os.write(master, answer.encode())
    else:
        os.kill(pid, answer["signal"])
while not is_over and time.monotonic() < deadline:
    read_some()
    is_over = ended()
if not is_over:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
while select.select([master], [], [], 0)[0]:
    screen += os.read(master, 65536)
echo = bool(termios.tcgetattr(slave)[3] & termios.ECHO) and bool(termios.tcgetattr(slave)[3] & termios.ICANON)
print(
    json.dumps(
        {
            "screen": screen.decode(errors="replace"),
            "echo": echo,
            "exit": os.WEXITSTATUS(status) if is_over and os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if is_over and os.WIFSIGNALED(status) else None,
            "argvSeen": argv_seen,
        }
    )
)
