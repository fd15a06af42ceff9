// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/notify"
	"github.com/mcpscope/mcpscope/internal/proc"
)

// Bounds of what is read of a caller, who may have written anything there.
const (
	argsMost  = 256
	bytesMost = 16 << 10
	lineMost  = 256 // of a file
)

// origin is a caller's process, and whose it is.
type origin struct {
	pid    int
	direct bool // the gateway's own child
	start  uint64
}

// originOf reads one file for who is no child of the gateway's: a hundred to one.
func originOf(r *notify.Request, gateway int) (o origin, err error) {
	st, err := proc.ReadStat(int(r.TID)) // a thread is found by its number, too
	if err != nil {
		return o, err
	}
	o = origin{pid: st.PID, direct: st.PPID == gateway, start: st.StartTime}
	if st.Threads > 1 { // it need not be the first one
		status, err := proc.ReadStatus(int(r.TID))
		if err != nil {
			return o, err
		}
		o.pid = status.Tgid
	}
	return o, nil
}

// look reads what a process is about to execute. missing: there is no such file, as in most
// directories of a search path.
func look(pid int, r *notify.Request) (c Caller, missing bool) {
	file, argv := r.Args[0], r.Args[1]
	if at(r) {
		file, argv = r.Args[1], r.Args[2]
	}
	if compat(r) {
		return c, false // pointers of another size; rare enough to be looked at afterwards
	}
	name, err := stringAt(pid, file)
	if err != nil {
		return c, false
	}
	if name == "" && !at(r) {
		return c, true
	}
	args, err := stringsAt(pid, argv)
	if err != nil || len(args) == 0 {
		return c, false
	}
	if name == "" || at(r) {
		c.Argv, c.Path = args, args[0]
		return c, false
	}
	line, err := firstLine(pid, name)
	c.Argv, c.Path, c.Interpreter = args, name, interpreter(line)
	return c, errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
}

// firstLine reads the beginning of a file, as the caller names it.
func firstLine(pid int, name string) ([]byte, error) {
	from, how := "cwd", unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY}
	if strings.HasPrefix(name, "/") {
		from, how.Resolve = "root", unix.RESOLVE_IN_ROOT // links in it lead to where they lead for the caller
	}
	dir, err := unix.Open(fmt.Sprintf("/proc/%d/%s", pid, from), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, unix.EACCES // of the directory; this says nothing about the file
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, name, &how)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	line := make([]byte, lineMost)
	n, err := unix.Read(fd, line)
	line, _, _ = bytes.Cut(line[:max(n, 0)], []byte("\n"))
	return line, err
}

// interpreter is what a script names after "#!", looking through env(1).
func interpreter(line []byte) string {
	text, ok := strings.CutPrefix(string(line), "#!")
	words := strings.Fields(text)
	if !ok || len(words) == 0 {
		return ""
	}
	if !strings.HasSuffix(words[0], "/env") {
		return words[0]
	}
	for _, w := range words[1:] {
		if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
			return w
		}
	}
	return ""
}

// arguments are those of a program that runs.
func arguments(pid int) []string { return proc.Arguments(pid, bytesMost) }
