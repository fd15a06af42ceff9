// SPDX-License-Identifier: Apache-2.0

package name

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"unicode"
)

const fallback = "server"

// Derive returns a name for the server that a command line starts: that of the package, file, module or
// image that a runner, an interpreter or a container engine is given, otherwise that of the program. It
// never fails; "server" is last.
func Derive(argv []string) string {
	argv = argv[behind(argv):]
	if len(argv) == 0 {
		return fallback
	}
	if name := Fit(cmp.Or(given(argv), path.Base(argv[0]))); strings.ContainsFunc(name, isWord) {
		return name
	}
	return fallback
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// given is the name of the program in a program's arguments; "" if it is not known to run anything.
func given(argv []string) string {
	if c := ContainerOf(argv); c != nil {
		_, operands := engineRunFlags.parse(argv[c.at:])
		return target(first(operands))
	}
	switch KindOf(argv[0]) {
	case Other, Engine:
		return ""
	case Shell:
		if command := ofScript(argv); command != nil {
			return Derive(command)
		}
	}
	set, operands := runnerFlags.parse(argv[1:])
	for listed("run exec x dlx tool", first(operands)) { // uv tool run
		set, operands = runnerFlags.parse(operands[1:])
	}
	word := first(operands)
	if KindOf(word) != Other { // npx tsx FILE, uv run python -m MODULE
		return Derive(operands)
	}
	return target(cmp.Or(word, set["-m"], set["--package"], set["--from"], set["--spec"]))
}

// Script is the file that an interpreter or a shell executes, as its arguments have it, and "" for any other
// program.
func Script(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	if kind := KindOf(argv[0]); kind != Interpreter && kind != Shell {
		return ""
	}
	_, operands := runnerFlags.parse(argv[1:]) // none behind -c
	return first(operands)
}

// ofScript returns the last command of the script that a shell is given by -c, if that runs something else:
// node /opt/gw/plain.js. It is nil for any other, since a script may contain secrets.
func ofScript(argv []string) []string {
	set, _ := runnerFlags.parse(argv[1:])
	script := strings.NewReplacer(">&", ">", "&>", ">").Replace(set["-c"]) // 2>&1 ends no command
	commands := strings.FieldsFunc(script, func(r rune) bool { return strings.ContainsRune(";&\n", r) })
	if len(commands) == 0 {
		return nil
	}
	words := strings.Fields(commands[len(commands)-1])
	for i, word := range words {
		words[i] = strings.Trim(word, `'"`)
	}
	isPrefix := func(word string) bool { return word == "exec" || strings.Contains(word, "=") }
	for len(words) > 0 && isPrefix(words[0]) {
		words = words[1:]
	}
	words = words[behind(words):]
	if len(words) < 2 || KindOf(words[0]) == Other || KindOf(words[0]) == Shell {
		return nil
	}
	return words
}

// generic are names of files and directories that are called alike in every project.
const generic = `server main index app cli start run mod __main__ mcp mcp-server mcp_server
	dist build src lib bin out cmd js cjs esm node_modules .bin .venv venv home root usr opt local`

// endings are the extensions that a name does without: of files for an interpreter, and of repositories.
const endings = ".py .pyz .js .mjs .cjs .jsx .ts .mts .cts .tsx .rb .php .pl .sh .git"

// target is the name in an argument: a package with a scope, a version or extras, the image of a container, a
// path, or a URL: that of an npm package that a path leads into, or of the file; where that says nothing
// (server.py, dist/index.js), that of the nearest directory that does.
func target(spec string) string {
	spec, _, _ = strings.Cut(spec, "#")
	spec, _, _ = strings.Cut(spec, "?") // with tokens
	spec = strings.TrimPrefix(spec, "npm:")
	if _, url, found := strings.Cut(spec, "://"); found {
		host, _, _ := strings.Cut(url, "/")
		spec = url[strings.LastIndexByte(host, '@')+1:] // without its credentials
	}
	elements := strings.FieldsFunc(path.Clean("/"+spec), func(r rune) bool { return r == '/' })
	i := slices.Index(elements, "node_modules") + 1
	if i > 0 && i < len(elements)-1 && elements[i] != ".bin" {
		if strings.HasPrefix(elements[i], "@") {
			i++
		}
		elements = elements[:i+1]
	}
	name := ""
	for i, element := range slices.Backward(elements) {
		element = strings.TrimPrefix(element, "@")
		if end := strings.IndexAny(element, ":@[=<>!~; "); end >= 0 {
			element = element[:end]
		}
		if ending := path.Ext(element); listed(endings, ending) {
			element = strings.TrimSuffix(element, ending)
		}
		if isUser := i > 0 && elements[i-1] == "home"; !isUser && !listed(generic, element) {
			return element
		}
		name = cmp.Or(name, element)
	}
	return name
}
