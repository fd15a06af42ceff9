// SPDX-License-Identifier: Apache-2.0

//go:build linux && !cgo

package main

import (
	"path"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/guard"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// continueRun is the launcher after launcher.Server.Run. It returns whether main has to report the end.
func continueRun(args, env []uintptr) bool {
	memory := int32(0)
	if len(env) == 0 || !strings.HasPrefix(text(env[0]), guard.HandoverVariable) {
		return false
	}
	for _, c := range text(env[0])[len(guard.HandoverVariable):] {
		if c < '0' || c > '9' {
			return false
		}
		memory = memory*10 + c - '0'
	}
	return own.Continue(memory, args, env)
}

// plain is a run that starts its server before the Go runtime, and found is its program. They are in the
// program's memory: there is no heap.
var (
	plain guard.Plain
	found file
)

// beginRun runs the server of a run that needs nothing of main: with flags that raw code reads, without
// variables and files that set anything, in a place where no manager is waited for. It returns false for
// everything else, and for everything that fails, and main does it once more. It returns true where main has
// to report the end.
func beginRun(args, env []uintptr) bool {
	if len(args) < 4 || unix.Getuid() != unix.Geteuid() {
		return false
	}
	flags := &plain.Flags
	flags.EOFGrace = int64(policy.DefaultEOFGrace)
	flags.TermGrace = int64(policy.DefaultTermGrace)
	onTerminal := isTerminal(0)
	if onTerminal {
		flags.TermGrace = int64(policy.TerminalTermGrace)
	}
	command := flags.Read(args[2:])
	if len(command) == 0 || flags.IdleFreeze != 0 && onTerminal {
		return false
	}
	search, ok := plainSettings(env)
	if !ok || !choosePlace() || runsEngine(command) {
		return false
	}
	isManaged := plain.From != page.CgroupDirectory
	if isManaged && len(flags.Limits.All()) > 0 { // a group with limits can't be taken over by a manager
		return false
	}
	if flags.Verbose && !isManaged && !flags.InCgroup { // main notes why better backends are missing
		return false
	}
	if !standardAreOpen() || !found.find(text(command[0]), search) {
		return false
	}
	if flags.Name != 0 {
		plain.Name = text(flags.Name)
	} else {
		plain.Name = path.Base(text(uintptr(unsafe.Pointer(&found))))
		if !isName(plain.Name) {
			return false
		}
	}
	plain.Command.Args = command
	plain.Command.Env = env
	plain.Command.Path = uintptr(unsafe.Pointer(&found))
	last := args[len(args)-1]
	plain.Command.Hide = [2]uintptr{args[0], last + uintptr(len(text(last)))}
	return plain.Run(&own)
}

// isTerminal reports whether a descriptor is a terminal. Its program gets more time to end, and main has it
// frozen when it is idle.
func isTerminal(fd uintptr) bool {
	var mode unix.Termios
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, fd, unix.TCGETS, uintptr(unsafe.Pointer(&mode)))
	return errno == 0
}

// plainSettings reads PATH (search). It returns ok false if there are settings, in variables or in a file:
// main has to read those.
func plainSettings(env []uintptr) (search string, ok bool) {
	var home, config string
	for i := len(env) - 1; i >= 0; i-- { // the first variable of a name counts, so it is read last
		v := text(env[i])
		isOuterID := strings.HasPrefix(v, "MCPSCOPE_ID=") // of an outer server: no setting
		if strings.HasPrefix(v, "MCPSCOPE_") && !isOuterID {
			return "", false
		}
		value(&search, v, "PATH=")
		value(&home, v, "HOME=")
		value(&config, v, "XDG_CONFIG_HOME=")
	}
	return search, !hasSettings(home, config)
}

// choosePlace chooses the backend as launcher.Server does with auto. It returns false where main has to look
// for another one.
func choosePlace() bool {
	var f file
	plain.Reports = f.named("/run/systemd/journal/socket").access(unix.W_OK) == 0
	root := unix.Getuid() == 0
	switch {
	case plain.Flags.InCgroup, !f.named("/run/systemd/system").exists():
		return root
	case root:
		plain.From = page.SystemScope
	default:
		plain.From = page.UserScope
	}
	return true
}

// runsEngine reports whether a word of the command has the name of a container engine: containers need a
// label.
func runsEngine(command []uintptr) bool {
	for _, addr := range command {
		word := text(addr)
		for _, engine := range [...]string{"docker", "podman", "nerdctl"} {
			if strings.Contains(word, engine) {
				return true
			}
		}
	}
	return false
}
