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

// launch is the start of the server of this process, and found is its program there. They are in memory of
// the program: there is no heap.
var (
	launch guard.Plain
	found  = (*file)(&launch.Program)
)

// performPlan performs the plan of launcher.Server.Run. It returns whether main has to report the end.
func performPlan(args, env []uintptr) bool {
	if len(env) == 0 {
		return false
	}
	rest, isPlan := strings.CutPrefix(text(env[0]), guard.PlanVariable)
	if !isPlan {
		return false
	}
	number, path, _ := strings.Cut(rest, " ")
	memory := int32(0)
	for _, c := range number {
		if c < '0' || c > '9' {
			return false
		}
		memory = memory*10 + c - '0'
	}
	launch.Start.Command.Path = uintptr(unsafe.Pointer(unsafe.StringData(path)))
	launch.Start.Command.Hide = commandLine(args)
	return launch.Start.Execute(&own, memory, args, env)
}

// commandLine is where the arguments of this process are.
func commandLine(args []uintptr) (ends [2]uintptr) {
	last := args[len(args)-1]
	ends[0] = args[0]
	ends[1] = last + uintptr(len(text(last)))
	return ends
}

// beginRun runs the server of a run that needs nothing of main: with flags and files of settings that raw
// code reads, and without variables. It returns false for everything else, and for everything that fails, and
// main does it once more. It returns true where main has to report the end.
func beginRun(args, env []uintptr) bool {
	if len(args) < 4 || unix.Getuid() != unix.Geteuid() {
		return false
	}
	flags := &launch.Flags
	flags.EOFGrace = int64(policy.DefaultEOFGrace)
	flags.TermGrace = int64(policy.DefaultTermGrace)
	onTerminal := isTerminal(0)
	if onTerminal {
		flags.TermGrace = int64(policy.TerminalTermGrace)
	}
	search, ok := plainSettings(env)
	if !ok {
		return false
	}
	command := flags.Read(args[2:])
	if len(command) == 0 || flags.IdleFreeze != 0 && onTerminal {
		return false
	}
	if !choosePlace() || runsEngine(command) {
		return false
	}
	isManaged := launch.From != page.CgroupDirectory
	if isManaged && !flags.Limits.IsEmpty() { // a group with limits can't be taken over by a manager
		return false
	}
	if flags.Verbose && !isManaged && !flags.InCgroup { // main notes why better backends are missing
		return false
	}
	if !standardAreOpen() || !found.find(text(command[0]), search) {
		return false
	}
	if flags.Name != 0 {
		launch.Name = text(flags.Name)
	} else {
		launch.Name = path.Base(text(uintptr(unsafe.Pointer(found))))
		if !isName(launch.Name) {
			return false
		}
	}
	launch.Start.Command.Args = command
	launch.Start.Command.Env = env
	launch.Start.Command.Path = uintptr(unsafe.Pointer(found))
	launch.Start.Command.Hide = commandLine(args)
	return launch.Run(&own)
}

// isTerminal reports whether a descriptor is a terminal. Its program gets more time to end, and main has it
// frozen when it is idle.
func isTerminal(fd uintptr) bool {
	var mode unix.Termios
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, fd, unix.TCGETS, uintptr(unsafe.Pointer(&mode)))
	return errno == 0
}

// plainSettings reads PATH (search) and the files of settings. It returns ok false if there are settings in
// variables, or if main has to read the files.
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
	return search, readSettings(home, config)
}

// choosePlace chooses the backend as launcher.Server does with auto. It returns false where main has to look
// for another one.
func choosePlace() bool {
	var f file
	launch.Reports = f.named("/run/systemd/journal/socket").access(unix.W_OK) == 0
	root := unix.Getuid() == 0
	switch {
	case launch.Flags.InCgroup, !f.named("/run/systemd/system").exists():
		return root
	case root:
		launch.From = page.SystemScope
	default:
		launch.From = page.UserScope
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
