// SPDX-License-Identifier: Apache-2.0

package name

import (
	"cmp"
	"slices"
	"strings"
)

// Container is a command line by which a container engine is asked to run a container, in front of
// which there may be other programs, a shell with a script among them.
type Container struct {
	Engine  string // docker, podman or nerdctl
	Compose bool   // by way of its compose, which knows fewer flags
	argv    []string
	at      []int    // where flags go: an index in argv or, of a script, offsets in argv[script]
	script  int      // -1 if there is none
	asked   []string // what the engine is asked by
	other   string   // what it is to do instead
}

// ContainerOf looks for one; nil is none, or one that can't be told for sure.
func ContainerOf(argv []string) *Container {
	if c := (command{argv: argv}).container(argv, nil); c != nil && c.at != nil {
		return c
	}
	return nil
}

// OtherContainer is what a command line asks an engine to do with a container that it does not make, as "docker exec"; "" if it does no such thing.
func OtherContainer(argv []string) string {
	if c := (command{argv: argv}).container(argv, nil); c != nil && listed("exec start attach", c.other) {
		return c.Engine + " " + c.other
	}
	return ""
}

// With is the command line with flags for the container, without a blank or quote, in front of its own.
func (c *Container) With(flags ...string) []string {
	all := slices.Clone(c.argv)
	if c.script < 0 {
		return slices.Insert(all, c.at[0], flags...)
	}
	line := &all[c.script]
	for _, at := range slices.Backward(c.at) {
		*line = (*line)[:at] + " " + strings.Join(flags, " ") + (*line)[at:]
	}
	return all
}

// Asked is how the same engine is asked for something else, the same way: with its context, host,
// namespace, and as the same user.
func (c *Container) Asked(words ...string) []string { return slices.Concat(c.asked, words) }

const (
	engines = "docker podman nerdctl"
	asking  = "sudo doas runuser setpriv gosu su-exec" // prefixes that say who asks
	besides = "exec command nohup setsid time nice ionice chrt taskset timeout stdbuf flock strace xvfb-run tini dumb-init catatonit systemd-inhibit"
)

// container looks for one in the rest of a whole command line, of which asked is to be kept for asking.
func (c command) container(whole, asked []string) *Container {
	if c.depth > maxDepth || len(c.argv) == 0 {
		return nil
	}
	tool, args, next := toolName(c.argv[0]), c.argv[1:], command{}
	switch {
	case listed(engines, tool):
		ask, at, run := runs(args)
		if !listed("run compose", run) {
			return &Container{Engine: tool, other: run}
		}
		return &Container{Engine: tool, Compose: run == "compose", argv: whole, at: []int{len(whole) - len(args) + at}, script: -1, asked: slices.Concat(asked, c.argv[:1+ask])}
	case listed("sh bash zsh dash ash ksh", tool):
		return c.inScript(whole, asked)
	case listed(besides+" "+asking, tool):
		if next = c.past(prefixes()[tool], args); listed(besides, tool) {
			return next.container(whole, asked)
		}
	case tool == "env":
		if p := envFlags.parse(args); p.first("-S --split-string") == "" {
			next = c.then(unassigned(p.operands))
		}
	}
	return next.container(whole, slices.Concat(asked, c.argv[:len(c.argv)-len(next.argv)]))
}

// runs finds what an engine is told to do, and what is behind that, in its arguments; run is another word if it is not to run anything.
func runs(args []string) (ask, at int, run string) {
	word, rest := dockerFlags.parse(args).word()
	ask = len(args) - len(rest) - 1
	switch word {
	case "compose":
		run = word
		word, rest = composeFlags.parse(rest).word()
	case "container":
		word, rest = parsed{operands: rest}.word()
	}
	if word != "run" {
		return ask, 0, word
	}
	return ask, len(args) - len(rest), cmp.Or(run, word)
}

// inScript looks for all programs of a script that do.
func (c command) inScript(whole, asked []string) *Container {
	p := shellFlags.parse(c.argv[1:])
	script, rest := p.word()
	if _, ok := p.flags["-c"]; !ok {
		return nil
	}
	found := &Container{argv: whole, script: len(whole) - len(rest) - 1}
	l := split(script, nil)
	for i, words := range l.commands {
		tool := slices.IndexFunc(words, func(w string) bool { return !listed(keywords+" exec command", w) && !isAssignment(w) })
		if tool < 0 || !listed(engines, toolName(words[tool])) {
			continue
		}
		first, begin := tool, l.begins[i] // or the first assignment
		if assigned := slices.IndexFunc(words[:tool], isAssignment); assigned >= 0 {
			first = assigned
		}
		ask, at, run := runs(words[tool+1:])
		if !listed("run compose", run) {
			continue
		}
		line, end := script[begin[first]:begin[tool+1+ask]], begin[tool+at]+len("run")
		if found.Engine != "" && found.asked[0] != line || end > len(script) || script[end-len("run"):end] != "run" || slices.ContainsFunc(strings.Split(line, "$")[1:], func(s string) bool { return s != "" && strings.Contains("0123456789@*{", s[:1]) }) {
			return nil
		}
		found.Compose = found.Compose || run == "compose"
		found.Engine, found.at, found.asked = toolName(words[tool]), append(found.at, end), []string{line}
	}
	if found.Engine != "" {
		found.asked = slices.Concat(asked, c.argv[:len(c.argv)-len(rest)-1], []string{found.asked[0] + `"$@"`, "sh"})
		return found
	}
	return nil
}
