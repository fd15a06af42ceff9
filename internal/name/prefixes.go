// SPDX-License-Identifier: Apache-2.0

package name

import (
	"slices"
	"strings"
)

// prefix is a program that is put before a command and runs it.
type prefix struct {
	grammar
	subs     string // subcommands that do so, where it has others
	operands int    // how many operands of its own come first
	dashes   bool   // the command is what follows "--", if that is there
}

// prefixes is a function, so that a start with a name spends no time on the table.
func prefixes() map[string]prefix {
	return map[string]prefix{
		"exec":       {grammar: grammar{valued: "-a"}},
		"command":    {},
		"builtin":    {},
		"nohup":      {},
		"setsid":     {},
		"time":       {grammar: grammar{valued: "-f --format -o --output"}},
		"nice":       {grammar: grammar{valued: "-n --adjustment"}},
		"ionice":     {grammar: grammar{valued: "-c --class -n --classdata"}},
		"chrt":       {grammar: grammar{valued: "-T -P -D"}, operands: 1},
		"taskset":    {operands: 1},
		"timeout":    {grammar: grammar{valued: "-s --signal -k --kill-after"}, operands: 1},
		"stdbuf":     {grammar: grammar{valued: "-i --input -o --output -e --error"}},
		"flock":      {grammar: grammar{valued: "-w --timeout -E --conflict-exit-code"}, operands: 1},
		"strace":     {grammar: grammar{valued: "-e -o -p -s -u -a -O -S -P -E -I -b"}},
		"xvfb-run":   {grammar: grammar{valued: "-n --server-num -s --server-args -e --error-file -f --auth-file -w --wait -p --xauth-protocol"}},
		"caffeinate": {grammar: grammar{valued: "-t -w"}},

		"sudo": {grammar: grammar{
			valued: "-u --user -g --group -h --host -p --prompt -C --close-from -T --command-timeout -U --other-user -r --role -t --type -R --chroot",
			dir:    "-D --chdir",
		}},
		"doas":    {grammar: grammar{valued: "-u -C"}},
		"runuser": {grammar: grammar{valued: "-u --user -g --group -G --supp-group"}},
		"setpriv": {grammar: grammar{plain: "-d --dump --list-caps --nnp --clear-groups --keep-groups --init-groups --reset-env"}},
		"gosu":    {operands: 1},
		"su-exec": {operands: 1},

		"tini":      {grammar: grammar{valued: "-p -e"}},
		"dumb-init": {grammar: grammar{valued: "-r --rewrite"}},
		"catatonit": {},
		"unshare":   {grammar: grammar{valued: "-S --setuid -G --setgid -R --root --map-user --map-group --map-users --map-groups --propagation --setgroups", dir: "-w --wd"}},
		"firejail":  {},
		"systemd-run": {grammar: grammar{
			valued: "-u --unit -p --property --slice --description -H --host -M --machine --uid --gid --nice -E --setenv --service-type",
			dir:    "--working-directory",
		}},
		"systemd-inhibit": {grammar: grammar{valued: "--what --who --why --mode"}},
		"wsl":             {grammar: grammar{valued: "-d --distribution -u --user", dir: "--cd"}},
		"cmd":             {subs: "/c /C /k /K"},

		"poetry":    {grammar: grammar{dir: "-C --directory -P --project"}, subs: "run"},
		"pdm":       {grammar: grammar{dir: "-p --project"}, subs: "run"},
		"pipenv":    {subs: "run"},
		"hatch":     {grammar: grammar{valued: "-e --env"}, subs: "run"},
		"rye":       {subs: "run"},
		"pixi":      {grammar: grammar{valued: "-e --environment --manifest-path"}, subs: "run"},
		"conda":     {grammar: grammar{valued: "-n --name -p --prefix", dir: "--cwd"}, subs: "run"},
		"bundle":    {subs: "exec"},
		"rbenv":     {subs: "exec"},
		"pyenv":     {subs: "exec"},
		"direnv":    {subs: "exec", operands: 1},
		"mise":      {grammar: grammar{dir: "-C --cd"}, subs: "exec x", dashes: true},
		"dotenvx":   {grammar: grammar{valued: "-e --env -f --env-file"}, subs: "run", dashes: true},
		"op":        {grammar: grammar{valued: "--env-file --account"}, subs: "run", dashes: true},
		"doppler":   {grammar: grammar{valued: "-p --project -c --config -t --token"}, subs: "run", dashes: true},
		"infisical": {grammar: grammar{valued: "--env --path --projectId --token"}, subs: "run", dashes: true},
	}
}

// behind names the command behind a prefix.
func (c command) behind(p prefix, args []string) string { return c.past(p, args).name() }

// past is the command behind a prefix, an empty one if there is none.
func (c command) past(p prefix, args []string) command {
	q := p.parse(args)
	c = c.in(q.dir)
	rest := q.operands
	if p.subs != "" {
		sub, more := q.word()
		if !listed(p.subs, sub) {
			return command{}
		}
		q = p.parse(more)
		c, rest = c.in(q.dir), q.operands
	}
	if i := slices.Index(rest, "--"); i >= 0 && p.dashes {
		return c.then(rest[i+1:])
	}
	rest = rest[min(p.operands, len(rest)):]
	return c.then(unassigned(rest))
}

var envFlags = grammar{valued: "-u --unset -S --split-string", dir: "-C --chdir"}

// env is a prefix that may hold the command in one word, as #! lines need it.
func (c command) env(args []string) string {
	p := envFlags.parse(args)
	words := p.operands
	if line := p.first("-S --split-string"); line != "" {
		words = append(strings.Fields(line), words...)
	}
	return c.in(p.dir).then(unassigned(words)).name()
}

// unassigned is a command without the assignments and redirections before it.
func unassigned(words []string) []string {
	for len(words) > 0 && (isAssignment(words[0]) || isRedirection(words[0])) {
		words = words[1:]
	}
	return words
}

func isAssignment(word string) bool {
	variable, _, ok := strings.Cut(word, "=")
	return ok && variable != "" && !strings.ContainsAny(variable, "/.-")
}

func isRedirection(word string) bool {
	word = strings.TrimLeft(word, "0123456789")
	return strings.HasPrefix(word, ">") || strings.HasPrefix(word, "<")
}

// mcpscope names what it would name itself.
func (c command) mcpscope(args []string) string {
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	for i, arg := range args[:end] {
		if name, ok := strings.CutPrefix(arg, "--name="); ok {
			return name
		}
		if arg == "--name" && i+1 < end {
			return args[i+1]
		}
	}
	return c.behind(prefix{subs: "run gateway", dashes: true}, args)
}
