// SPDX-License-Identifier: Apache-2.0

package name

import "strings"

// Toolchains that build what they run.

var (
	goFlags = grammar{
		long:   true,
		valued: "-tags -ldflags -gcflags -asmflags -exec -mod -modfile -overlay -o -p -pkgdir -toolexec -buildmode -compiler -coverpkg -covermode -pgo -installsuffix -gccgoflags",
		dir:    "-C",
	}
	cargoFlags = grammar{
		valued: "--bin --example -p --package --manifest-path -F --features --target --target-dir --profile -j --jobs --color --config -Z --message-format",
		dir:    "-C",
	}
	dotnetFlags = grammar{
		valued: "--project --file -p --property -f --framework -c --configuration --launch-profile -r --runtime -v --verbosity -a --arch --os",
	}
)

func (c command) golang(args []string) string {
	p := goFlags.parse(args)
	c = c.in(p.dir)
	word, rest := p.word()
	if word != "run" && word != "tool" {
		return ""
	}
	p = goFlags.parse(rest)
	pkg, _ := p.word()
	return c.in(p.dir).goPackage(pkg)
}

func (c command) goPackage(pkg string) string {
	if pkg == "" || isPath(pkg) || strings.HasSuffix(pkg, ".go") {
		return c.target(pkg)
	}
	p := parts(unversioned(pkg))
	if len(p) > 1 && strings.Contains(p[0], ".") {
		p = p[1:] // the host
	}
	return fromParts(p)
}

func (c command) cargo(args []string) string {
	if len(args) > 0 && strings.HasPrefix(args[0], "+") {
		args = args[1:] // the toolchain
	}
	p := cargoFlags.parse(args)
	c = c.in(p.dir)
	word, rest := p.word()
	if word != "run" && word != "r" {
		return ""
	}
	p = cargoFlags.parse(rest)
	if n := p.first("--bin --example -p --package"); n != "" {
		return packageName(n)
	}
	if manifest := p.first("--manifest-path"); manifest != "" {
		return c.file(manifest + "/..")
	}
	return c.file(".")
}

func (c command) dotnet(args []string) string {
	word, rest := dotnetFlags.parse(args).word()
	p := dotnetFlags.parse(rest)
	switch word {
	case "run", "watch":
		return c.target(p.first("--project --file"))
	case "tool":
		if word, rest := p.word(); word == "run" || word == "exec" {
			return c.npx(rest)
		}
		return ""
	case "exec":
		word, _ = p.word()
	}
	if !strings.HasSuffix(word, ".dll") && !strings.HasSuffix(word, ".cs") {
		return "" // build, test …
	}
	return c.target(word)
}
