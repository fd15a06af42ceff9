// SPDX-License-Identifier: Apache-2.0

package name

import (
	"path"
	"slices"
	"strings"
)

// Kind is the use that a program makes of its command line.
type Kind int

const (
	Other       Kind = iota
	Runner           // it is given a package, perhaps after a subcommand
	Interpreter      // it is given a file
	Engine           // it is given the image of a container
	Shell
)

// KindOf is the kind of a program, by the base name of its path without a version.
func KindOf(file string) Kind {
	switch program(file) {
	case "npx", "bunx", "pnpx", "uvx", "npm", "pnpm", "yarn", "pipx", "uv":
		return Runner
	case "node", "nodejs", "tsx", "bun", "deno", "python", "pypy", "ruby", "perl", "php":
		return Interpreter
	case "docker", "podman", "nerdctl":
		return Engine
	case "sh", "bash", "dash", "zsh", "fish", "ash", "ksh", "busybox":
		return Shell
	}
	return Other
}

// program is python of /usr/bin/python3.12.
func program(file string) string { return strings.TrimRight(path.Base(file), "0123456789.") }

// Prefixes run the command behind them.
const Prefixes = "env sudo doas timeout nohup setsid"

// behind is the index of the program behind all prefixes and the assignments that follow them.
func behind(argv []string) int {
	at := 0
	for at < len(argv) && listed(Prefixes, path.Base(argv[at])) {
		_, operands := prefixFlags.parse(argv[at+1:])
		if path.Base(argv[at]) == "timeout" && len(operands) > 0 {
			operands = operands[1:] // the duration
		}
		at = len(argv) - len(operands)
		for at < len(argv) && strings.Contains(argv[at], "=") {
			at++
		}
	}
	return at
}

// grammar is as much of a program's flags as it takes to find its first operand. Lists are separated by
// blanks.
type grammar struct {
	valued string // flags that take a value …
	plain  string // … or, where this is set, those that don't: all others do
	final  string // flags whose value is a program: the other arguments belong to it
}

var (
	prefixFlags = grammar{
		valued: "-u --unset --user -g --group -h --host -p --prompt -C --chdir -D -T -r -t -R"}
	// runnerFlags are the flags of runners, interpreters and shells. No two programs use one of them
	// differently.
	runnerFlags = grammar{
		valued: `-W -X -r --require --import --loader --conditions --tsconfig --config --env-file
			-p --package --workspace --with --with-editable --from --spec --python --registry --cache
			--prefix -C --cwd --extra --index-url --directory --project`,
		final: "-c -e --eval --print -m"}
	// engineFlags are before the subcommand, also those of compose.
	engineFlags = grammar{valued: `-H --host -c --context --config -l --log-level --tlscacert --tlscert
		--tlskey --url --connection --root --runroot --storage-driver -n --namespace -a --address
		-f --file -p --project-name --profile --env-file --project-directory --ansi --progress`}
	// engineRunFlags lists the flags without a value: a value taken for an image could be a secret (-e
	// TOKEN=…).
	engineRunFlags = grammar{plain: `
		-d --detach -i --interactive -t --tty -T --rm --init --privileged -P --publish-all
		--read-only --oom-kill-disable --sig-proxy -q --quiet --replace --rmi --build --service-ports`}
)

// parse separates flags, with their dashes, from the operands.
func (g grammar) parse(args []string) (set map[string]string, operands []string) {
	set = map[string]string{}
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			break
		}
		flag, value, attached := strings.Cut(arg, "=")
		if arg[1] != '-' { // -i, -it, -ip80:80: what follows a flag that takes a value is its value
			end := 1
			for end < len(arg)-1 && !g.takesValue("-"+arg[end:end+1]) {
				set["-"+arg[end:end+1]] = ""
				end++
			}
			flag = "-" + arg[end:end+1]
			value = strings.TrimPrefix(arg[end+1:], "=")
			attached = value != ""
		}
		if !attached && g.takesValue(flag) && len(args) > 0 {
			value = args[0]
			args = args[1:]
		}
		set[flag] = value
		if listed(g.final, flag) {
			return set, nil
		}
	}
	return set, args
}

func (g grammar) takesValue(flag string) bool {
	if g.plain != "" {
		return !listed(g.plain, flag)
	}
	return listed(g.valued, flag) || listed(g.final, flag)
}

func first(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

func listed(list, word string) bool { return slices.Contains(strings.Fields(list), word) }
