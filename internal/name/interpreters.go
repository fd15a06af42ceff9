// SPDX-License-Identifier: Apache-2.0

package name

import "strings"

// interpreter is a program that runs a file.
type interpreter struct {
	grammar
	subs  string // subcommands after which the file comes
	code  string // flags with the program itself, which has no name
	named string // flags whose value is the name: python -m a.b
	file  string // flags whose value is the file: java -jar x.jar
}

const nodeValued = `-r --require --import --loader --experimental-loader --env-file --env-file-if-exists -C --conditions
	--input-type --title --icu-data-dir --openssl-config --disable-warning --watch-path`

var (
	python = interpreter{
		grammar: grammar{valued: "-W -X -Q --check-hash-based-pycs", final: "-m -c"},
		code:    "-c", named: "-m",
	}
	node = interpreter{
		grammar: grammar{valued: nodeValued, final: "-e --eval -p --print"},
		code:    "-e --eval -p --print",
	}
	tsx = interpreter{
		grammar: grammar{valued: nodeValued + " --tsconfig -P --project -O --compilerOptions -w --watch --ext -x --exec -i --ignore", final: "-e --eval"},
		subs:    "watch", code: "-e --eval",
	}
	bun = interpreter{
		grammar: grammar{valued: "-r --preload -c --config --env-file --port -d --define -l --loader", final: "-e --eval -p --print", dir: "--cwd"},
		subs:    "run", code: "-e --eval -p --print",
	}
	powershell = interpreter{
		grammar: grammar{
			long:   true,
			valued: "-ExecutionPolicy -ep -Version -OutputFormat -InputFormat -WindowStyle -WorkingDirectory",
			final:  "-File -f -Command -c -EncodedCommand",
		},
		code: "-Command -c -EncodedCommand", file: "-File -f",
	}
	lua = interpreter{grammar: grammar{valued: "-l", final: "-e"}, code: "-e"}
	// mcpFile is for the subcommands of mcp and fastmcp that run a file.
	mcpFile = interpreter{grammar: grammar{
		valued: "-t --transport --host -p --port --log-level --path -f --with-editable -e --env-file -v --env-var --with --python --project",
	}}
)

// interpreters is a function for the same reason as prefixes.
func interpreters() map[string]interpreter {
	return map[string]interpreter{
		"python": python, "pypy": python, "py": python, "pythonw": python,
		"node": node, "nodejs": node, "electron": node,
		"tsx": tsx, "ts-node": tsx, "nodemon": tsx,
		"deno": {
			grammar: grammar{valued: "-c --config --import-map --lock --cert --location --seed -L --log-level", dir: "--cwd"},
			subs:    "run serve task x",
		},
		"ruby":       {grammar: grammar{valued: "-I -r -E -F", final: "-e", dir: "-C"}, code: "-e"},
		"perl":       {grammar: grammar{valued: "-I -M -m", final: "-e -E"}, code: "-e -E"},
		"php":        {grammar: grammar{valued: "-d -c -z -t -S", final: "-f --file -r --run"}, code: "-r --run", file: "-f --file"},
		"lua":        lua,
		"luajit":     lua,
		"rscript":    {grammar: grammar{final: "-e"}, code: "-e"},
		"julia":      {grammar: grammar{valued: "-L --load -J --sysimage -p --procs -t --threads", final: "-e --eval -E --print"}, code: "-e --eval -E --print"},
		"elixir":     {grammar: grammar{valued: "-r -pa -pz --name --sname --cookie", final: "-e --eval", long: true}, code: "-e --eval"},
		"pwsh":       powershell,
		"powershell": powershell,
		"wasmtime":   {grammar: grammar{valued: "--dir --env --mapdir -W -S -C -O -D"}, subs: "run"},
		"java": {
			grammar: grammar{
				long: true,
				valued: `-cp -classpath --class-path -p --module-path --add-modules --add-opens --add-exports --add-reads
				--patch-module --upgrade-module-path --limit-modules --enable-native-access`,
				final: "-jar -m --module",
			},
			named: "-m --module", file: "-jar",
		},
	}
}

// script names what an interpreter runs.
func (c command) script(i interpreter, args []string) string {
	p := i.parse(args)
	c = c.in(p.dir)
	if sub, rest := p.word(); sub != "" && listed(i.subs, sub) {
		p = i.parse(rest)
		c = c.in(p.dir)
	}
	for flag := range strings.FieldsSeq(i.code) {
		if _, ok := p.flags[flag]; ok {
			return ""
		}
	}
	if module := p.first(i.named); module != "" {
		return module
	}
	if file := p.first(i.file); file != "" {
		return c.target(file)
	}
	file, _ := p.word()
	return c.target(file)
}

// mcp is the command of MCP's Python SDK: "mcp run server.py:object".
func (c command) mcp(args []string) string {
	if len(args) == 0 || !listed("run dev", args[0]) {
		return ""
	}
	p := mcpFile.parse(args[1:])
	file, _ := p.word()
	if script, _, ok := strings.Cut(file, ".py:"); ok {
		file = script + ".py"
	}
	return c.target(file)
}
