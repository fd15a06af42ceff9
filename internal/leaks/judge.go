// SPDX-License-Identifier: Apache-2.0

package leaks

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/client"
)

// judge compares an abandoned process with what its user has configured, and sets the doubt where it is not
// proven a leak. It returns false for one that has nothing of a server, and for one that no configuration
// names unless that is wanted.
func (l *Leak) judge(known Configurations, wantsUnknown bool, sockets listeners) bool {
	l.Argv = arguments(l.PID)
	l.Dir, _ = os.Readlink(fmt.Sprintf("/proc/%d/cwd", l.PID)) // "", if it has ended
	server, isPlaced := known.find(asStarted(l.Argv), l.Dir)
	if server == nil && !wantsUnknown {
		return false
	}
	l.Below, _ = l.tree().Members() // as far as they can be read
	if server == nil {
		return l.judgeUnknown(sockets)
	}
	l.Name = cmp.Or(server.Name, name.Derive(server.Argv))
	l.File = server.File
	var doubts []string
	if client.OtherEndOf(l.PID, 1) != client.DeadEnd {
		doubts = append(doubts, "its stdout is no pipe of a client")
	}
	if !isPlaced {
		doubts = append(doubts, "its directory is not that of the configuration")
	}
	if server.Listens || l.listens(sockets) {
		doubts = append(doubts, "it listens on a socket, so it can have other clients")
	}
	l.Doubt = strings.Join(doubts, ", and ")
	return true
}

// judgeUnknown is judge for a process that no configuration names. Its client had it on pipes, so it may be a
// server that a gateway started by itself, or that a configuration had named before.
func (l *Leak) judgeUnknown(sockets listeners) bool {
	if len(l.Argv) == 0 || client.OtherEndOf(l.PID, 1) != client.DeadEnd {
		return false
	}
	if l.listens(sockets) {
		return false
	}
	title := name.Derive(asStarted(l.Argv))
	l.Name, _, _ = strings.Cut(title, " ") // what a program writes of itself has its arguments, too
	l.Doubt = "no configuration names it, so it may be no server"
	return true
}

// find returns the server that a command line in a directory is of; without one there, the first of the same
// words, and isPlaced is false.
func (known Configurations) find(argv []string, dir string) (server *Server, isPlaced bool) {
	for i := range known.Servers {
		s := &known.Servers[i]
		if !s.IsStartedBy(argv) {
			continue
		}
		if s.isPlaced(argv, dir, known.Home) {
			return s, true
		}
		if server == nil {
			server = s
		}
	}
	return server, false
}

// asStarted returns the command line that a client started. Package runners change theirs: npx has one word,
// "npm exec PACKAGE …", and uvx is "uv tool uvx PACKAGE …".
func asStarted(argv []string) []string {
	if len(argv) == 0 {
		return nil
	}
	if title, isNPX := strings.CutPrefix(argv[0], "npm exec "); isNPX {
		return append([]string{"npx"}, strings.Fields(title)...)
	}
	if len(argv) > 3 && path.Base(argv[0]) == "uv" && argv[1] == "tool" && argv[2] == "uvx" {
		return argv[2:]
	}
	return argv
}

// IsStartedBy reports whether a command line starts the server. That of a running npx lacks the flags before
// the package, and the limits of words.
func (s *Server) IsStartedBy(argv []string) bool {
	if s.Configured.IsStartedBy(argv) {
		return true
	}
	if len(s.Argv) == 0 || path.Base(s.Argv[0]) != "npx" {
		return false
	}
	args := s.Argv[1:]
	for len(args) > 0 && isAnswer(args[0]) {
		args = args[1:]
	}
	running := s.Configured
	running.Argv = append([]string{"npx"}, strings.Fields(strings.Join(args, " "))...)
	return running.IsStartedBy(argv)
}

// isAnswer reports whether a flag of npx takes no value.
func isAnswer(flag string) bool {
	const flags = "-y --yes -q --quiet --offline --prefer-offline --"
	return slices.Contains(strings.Fields(flags), flag)
}

// isPlaced reports whether the server is what this process runs, and not another one of the same words:
// `python3 main.py` is one in each project. home is that of the user.
func (s *Server) isPlaced(argv []string, dir, home string) bool {
	switch {
	case s.Dir != "":
		return dir == s.Dir
	case slices.ContainsFunc(s.Argv[1:], namesFile) && !s.runsRelative():
		return true
	case s.isOtherProgram(argv):
		return false
	case dir != "" && dir == cmp.Or(s.Project, home):
		return true
	case s.runsRelative():
		return false
	case namesFile(s.Argv[0]) && name.KindOf(s.Argv[0]) == name.Other:
		return true
	case s.dependsOnDirectory():
		return false
	}
	return s.Project == "" || strings.HasPrefix(dir, s.Project+"/")
}

// isOtherProgram reports whether the program has another path than the configured one: another project's
// Python, for example. Package runners do not keep theirs.
func (s *Server) isOtherProgram(argv []string) bool {
	program := argv[max(0, len(argv)-len(s.Argv))] // behind an interpreter
	return path.IsAbs(s.Argv[0]) && program != s.Argv[0] && name.KindOf(s.Argv[0]) != name.Runner
}

// runsRelative reports whether an interpreter is given a file that another directory can have, too.
func (s *Server) runsRelative() bool {
	kind := name.KindOf(s.Argv[0])
	isOfFile := kind == name.Interpreter || kind == name.Shell
	return isOfFile && slices.ContainsFunc(wordsOf(s.Argv[1:]), isRelative)
}

// namesFile reports whether an argument has an absolute path that says something: every program could be
// given / or /dev/null.
func namesFile(arg string) bool {
	return slices.ContainsFunc(wordsOf([]string{arg}), func(word string) bool {
		_, value, hasValue := strings.Cut(word, "=")
		if hasValue {
			word = value
		}
		return path.IsAbs(word) && path.Clean(word) != "/" && !strings.HasPrefix(word, "/dev/")
	})
}

// ofDirectory are programs that read from their directory what to do.
const ofDirectory = `npm pnpm yarn uv poetry pdm hatch rye make cargo go just task gradle mvn dotnet bundle
	rake composer mix compose flutter swift nx turbo`

// dependsOnDirectory reports whether the same words can mean another program elsewhere.
func (s *Server) dependsOnDirectory() bool {
	isImage := name.KindOf(s.Argv[0]) == name.Engine
	return slices.ContainsFunc(wordsOf(s.Argv), func(word string) bool {
		isOfDirectory := slices.Contains(strings.Fields(ofDirectory), path.Base(word))
		isInterpreter := name.KindOf(word) == name.Interpreter
		return isOfDirectory || isInterpreter || !isImage && isRelative(word)
	})
}

// wordsOf has the words of lines for a shell, too.
func wordsOf(argv []string) (words []string) {
	isEnd := func(r rune) bool { return strings.ContainsRune(" \t\n;&|<>()'\"`", r) }
	for _, arg := range argv {
		words = append(words, strings.FieldsFunc(arg, isEnd)...)
	}
	return words
}

// isRelative reports whether a word can be a file in the working directory. A flag, a package with a scope
// (@a/b) and a URL cannot.
func isRelative(word string) bool {
	switch {
	case word == "" || path.IsAbs(word) || strings.ContainsAny(word[:1], "-@~$"):
		return false
	case strings.Contains(word, "://"):
		return false
	case word[0] == '.' || strings.Contains(word, "/"):
		return true
	}
	ending := strings.TrimPrefix(path.Ext(word), ".")
	isLetter := func(r rune) bool { return r < 'a' || r > 'z' }
	return ending != "" && len(ending) <= 4 && !strings.ContainsFunc(ending, isLetter)
}

// listens reports whether it listens, or a process below it: npx does not listen itself.
func (l *Leak) listens(sockets listeners) bool {
	return slices.ContainsFunc(l.processes(), sockets.has)
}

// listeners are the sockets to which others connect, by network namespace. The kernel takes some 40 ms for
// the tables of a large host, so they are read once.
type listeners map[string]map[uint64]bool

// has reports whether a process has such a socket, or may have one. One that has ended has none.
func (of listeners) has(pid int) bool {
	var sockets []uint64
	err := proc.EachDescriptor(pid, func(_ int, link string) bool {
		f, kind := client.Identify(unix.AT_FDCWD, link)
		if kind == unix.S_IFSOCK {
			sockets = append(sockets, f.Ino)
		}
		return true
	})
	if err != nil {
		return !hasEnded(pid)
	}
	if len(sockets) == 0 {
		return false
	}
	listening, err := of.seenBy(pid)
	if err != nil {
		return !hasEnded(pid)
	}
	return slices.ContainsFunc(sockets, func(inode uint64) bool { return listening[inode] })
}

// seenBy returns the inode numbers of those in the network namespace of a process.
func (of listeners) seenBy(pid int) (map[uint64]bool, error) {
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	if known := of[namespace]; known != nil {
		return known, nil
	}
	tcp, errTCP := proc.TCPSockets(pid)
	local, errLocal := proc.UnixSockets(pid)
	if err := errors.Join(errTCP, errLocal); err != nil {
		return nil, err
	}
	found := map[uint64]bool{}
	for _, s := range tcp {
		if s.State == proc.TCPListens {
			found[s.Inode] = true
		}
	}
	for _, s := range local {
		if s.Listens {
			found[s.Inode] = true
		}
	}
	of[namespace] = found
	return found, nil
}

// hasEnded also counts a process that is not reaped yet.
func hasEnded(pid int) bool {
	st, err := proc.ReadStat(pid)
	return err != nil && proc.Exited(pid) || err == nil && st.IsZombie()
}
