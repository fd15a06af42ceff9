// SPDX-License-Identifier: Apache-2.0

package name

import (
	"path"
	"strings"
)

// target names what an interpreter is given to run: a file, a URL, or with
// Deno and Bun a package.
func (c command) target(arg string) string {
	switch {
	case arg == "":
		return ""
	case strings.HasPrefix(arg, "npm:"), strings.HasPrefix(arg, "jsr:"):
		return packageName(arg)
	}
	if _, rest, ok := strings.Cut(arg, "://"); ok {
		return fromParts(stemmed(urlParts(rest)))
	}
	return c.file(arg)
}

// file names what a path leads to: a package that npm has installed, whatever its files are called, or
// the file.
func (c command) file(p string) string {
	all := parts(join(c.dir, p))
	if pkg := installed(all); len(pkg) > 0 {
		if name := fromParts(pkg); name != "" {
			return name
		}
	}
	return fromParts(stemmed(all))
}

// installed is the package, with its scope, of a path into node_modules.
func installed(parts []string) []string {
	for i := len(parts) - 3; i >= 0; i-- { // a file is in it
		if parts[i] != "node_modules" {
			continue
		}
		first, end := parts[i+1], i+2
		if strings.HasPrefix(first, "@") {
			end++
		}
		if strings.HasPrefix(first, ".") || end >= len(parts) {
			return nil // .bin has links, which are called as people call the program
		}
		return parts[i+1 : end]
	}
	return nil
}

// fromParts is the last part of a path, or where that says nothing (server.py,
// dist/index.js) the nearest directory that does.
func fromParts(parts []string) string {
	if len(parts) == 0 {
		return ""
	}
	last := len(parts) - 1
	if genericStem(parts[last]) {
		for i := last - 1; i >= 0; i-- {
			if !genericDir(parts[i]) && !isHome(parts, i) {
				return bare(parts[i])
			}
		}
	}
	return bare(parts[last])
}

// bare takes the scope's sign and the version off: "@scope", "pkg@1.2".
func bare(part string) string {
	part = strings.TrimPrefix(part, "@")
	part, _, _ = strings.Cut(part, "@")
	if strings.Contains(part, "$") {
		return "" // a variable, which is not ours to read
	}
	return part
}

// genericStems are names of files that are called alike in every project.
const genericStems = "server main index app cli start run __main__ mcp mod mcp-server mcp_server"

func genericStem(stem string) bool {
	return listed(genericStems, strings.ToLower(stem)) || isVersion(stem)
}

// genericDirs say how a project is laid out, or where on the machine it is.
const genericDirs = `dist build src lib bin out target release debug node_modules site-packages dist-packages
	.venv venv .bin .local .cache .config .npm .pnpm _npx cmd apps packages scripts js cjs esm py python
	current latest usr local opt home root srv var tmp etc users workspace ~`

func genericDir(dir string) bool {
	d := strings.ToLower(dir)
	return listed(genericDirs, d) || genericStem(d) || strings.Contains(d, "$") ||
		strings.HasSuffix(d, ":") || // C:
		listed("python lib", strings.TrimRight(d, "0123456789.")) // python3.12, lib64
}

// isVersion: 2, 1.4.2, v2.
func isVersion(s string) bool {
	return s != "" && strings.Trim(strings.TrimPrefix(s, "v"), "0123456789.") == ""
}

// isHome: the directory has the name of a user, whose servers these all are.
func isHome(parts []string, i int) bool {
	return i > 0 && listed("home users", strings.ToLower(parts[i-1]))
}

// scriptExts are endings of what an interpreter, a loader or Windows starts.
const scriptExts = `.py .pyw .pyc .pyz .pex .js .mjs .cjs .jsx .ts .mts .cts .tsx .rb .php .phar .pl .sh .bash .zsh .fish
	.lua .r .jl .exs .go .rs .java .jar .war .class .dll .cs .csproj .fsproj .vbproj .wasm .exe .cmd .bat .ps1 .com .appimage`

func trimExt(file string) string {
	ext := path.Ext(file)
	if ext == file || !listed(scriptExts, strings.ToLower(ext)) {
		return file
	}
	return strings.TrimSuffix(file, ext)
}

func stemmed(parts []string) []string {
	if n := len(parts); n > 0 {
		parts[n-1] = trimExt(parts[n-1])
	}
	return parts
}

// parts are the elements of a path, without "." and what ".." cancels. Taken as
// absolute: what a ".." at the head leads to is unknown anyway.
func parts(p string) []string { return strings.FieldsFunc(path.Clean("/"+slashes(p)), isSlash) }

// urlParts are the host and the path of what follows "://", without the
// credentials before the one and the query, with its tokens, behind the other.
func urlParts(rest string) []string {
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i]
	}
	host, p, _ := strings.Cut(rest, "/")
	host = host[strings.LastIndexByte(host, '@')+1:]
	return parts(host + "/" + p)
}

func isSlash(r rune) bool { return r == '/' }

// slashes: command lines written for Windows are run under WSL, and a backslash
// in the name of a Unix file is rarer than that.
func slashes(p string) string { return strings.ReplaceAll(p, `\`, "/") }

// base is the last element of a path as it stands, "" for none.
func base(p string) string {
	p = strings.TrimRight(slashes(p), "/")
	return p[strings.LastIndexByte(p, '/')+1:]
}

// join is where p is for someone in dir.
func join(dir, p string) string {
	p = slashes(p)
	if dir == "" || absolute(p) {
		return p
	}
	return dir + "/" + p
}

func absolute(p string) bool {
	return p != "" && strings.ContainsAny(p[:1], "/~$") || len(p) > 1 && p[1] == ':'
}
