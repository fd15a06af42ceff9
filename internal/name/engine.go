// SPDX-License-Identifier: Apache-2.0

package name

import (
	"slices"
	"strings"
)

// Container is a command line by which a container engine is asked to run a container, in front of
// which there may be other programs, a shell with a script among them.
type Container struct {
	Engine        string // docker, podman or nerdctl
	argv          []string
	at            int // of the first argument behind the word "run"
	ask           int // of the first one that says what to do
	script, start int // argv[script] is a script, in which the same are offsets, or there is none: -1
}

// ContainerOf looks for one; nil is none, or one that can't be told for sure.
func ContainerOf(argv []string) *Container { return command{argv: argv}.container(argv) }

// Labelled is the command line with a label for the container.
func (c *Container) Labelled(label string) []string {
	if c.script < 0 {
		return slices.Insert(slices.Clone(c.argv), c.at, "--label", label)
	}
	all, line := slices.Clone(c.argv), c.argv[c.script]
	all[c.script] = line[:c.at] + " --label " + label + line[c.at:]
	return all
}

// Asked is how the same engine is asked for something else, the same way: with its context, host,
// namespace, and as the same user.
func (c *Container) Asked(words ...string) []string {
	if c.script < 0 {
		return slices.Concat(c.argv[:c.ask], words)
	}
	line := c.argv[c.script][c.start:c.ask] + `"$@"`
	return slices.Concat(c.argv[:c.script], []string{line, "sh"}, words)
}

func (c command) container(whole []string) *Container {
	if c.depth > maxDepth || len(c.argv) == 0 {
		return nil
	}
	tool, args := toolName(c.argv[0]), c.argv[1:]
	if p, ok := prefixes()[tool]; ok {
		next, _ := c.past(p, args)
		return next.container(whole)
	}
	switch tool {
	case "docker", "podman", "nerdctl":
		ask, at, ok := runs(args)
		if !ok {
			return nil
		}
		before := len(whole) - len(args)
		return &Container{Engine: tool, argv: whole, at: before + at, ask: before + ask, script: -1}
	case "sh", "bash", "zsh", "dash", "ash", "ksh":
		return c.inScript(whole, args)
	case "env":
		if p := envFlags.parse(args); p.first("-S --split-string") == "" {
			return c.then(unassigned(p.operands)).container(whole)
		}
	}
	return nil
}

// runs finds what an engine is told to do, and what is behind "run", in its arguments.
func runs(args []string) (ask, at int, ok bool) {
	word, rest := dockerFlags.parse(args).word()
	ask = len(args) - len(rest) - 1
	switch word {
	case "compose":
		word, rest = composeFlags.parse(rest).word()
	case "container":
		word, rest = parsed{operands: rest}.word()
	}
	return ask, len(args) - len(rest), word == "run"
}

// inScript looks for the first program of a script that does, and for its words in the script.
func (c command) inScript(whole, args []string) *Container {
	p := shellFlags.parse(args)
	script, rest := p.word()
	if _, ok := p.flags["-c"]; !ok {
		return nil
	}
	end := 0
	for _, words := range simpleCommands(script, nil) {
		for len(words) > 0 && (listed(keywords+" exec command", words[0]) || isAssignment(words[0])) {
			words = words[1:]
		}
		if len(words) == 0 || !listed("docker podman nerdctl", toolName(words[0])) {
			continue
		}
		ask, at, ok := runs(words[1:]) // at is behind the last word where it runs nothing
		begins := make([]int, at+1)
		for i, word := range words[:at+1] { // "run" is the last of them
			offset := strings.Index(script[end:], word)
			if offset < 0 {
				return nil // it is quoted
			}
			begins[i] = end + offset
			end = begins[i] + len(word)
		}
		if alone := simpleCommands(script[begins[0]:end], nil); len(alone) != 1 || !slices.Equal(alone[0], words[:at+1]) {
			return nil // these are others, which look the same
		}
		if ok {
			return &Container{Engine: toolName(words[0]), argv: whole, script: len(whole) - len(rest) - 1, start: begins[0], ask: begins[ask+1], at: end}
		}
	}
	return nil
}
