// SPDX-License-Identifier: Apache-2.0

package name

import "strings"

// Package runners: what they are given is a package, or a command that one
// brings.

var (
	npxFlags = grammar{
		valued: "-p --package -c --call -w --workspace --cache --registry --userconfig --loglevel --node-options --allow-build --version --source --configfile",
		dir:    "--prefix --cwd -C --dir",
	}
	npmFlags = grammar{
		valued: "--package -w --workspace -F --filter --cache --registry --userconfig --loglevel",
		dir:    "--prefix --cwd -C --dir",
	}
	uvFlags = grammar{
		valued: `-w --with --with-editable --with-requirements --from --extra --no-extra --group --no-group --only-group
			--package --env-file -p --python --python-platform --python-preference -i --index-url --index --default-index
			--extra-index-url -f --find-links --index-strategy --keyring-provider --allow-insecure-host -P --upgrade-package
			--reinstall-package --refresh-package --resolution --prerelease --fork-strategy --exclude-newer --link-mode
			-C --config-setting --config-settings-package --no-binary-package --no-build-package
			--no-build-isolation-package -c --constraints -b --build-constraints --overrides --cache-dir --config-file
			--color --torch-backend --preview-features`,
		dir:   "--directory --project",
		final: "-m --module",
	}
)

func (c command) npx(args []string) string {
	p := npxFlags.parse(args)
	if script := p.first("-c --call"); script != "" {
		return c.in(p.dir).line(script, nil)
	}
	return c.in(p.dir).packaged(p, "-p --package")
}

func (c command) uvx(args []string) string {
	p := uvFlags.parse(args)
	return c.in(p.dir).packaged(p, "--from")
}

func (c command) pipx(args []string) string {
	g := grammar{valued: "--spec --python --pip-args -i --index-url --backend"}
	sub, rest := g.parse(args).word()
	if sub != "run" {
		return ""
	}
	return c.packaged(g.parse(rest), "--spec")
}

// packaged names the command that a package runner runs, or where it is not
// said the package, from those flags.
func (c command) packaged(p parsed, from string) string {
	spec, rest := p.word()
	if spec == "" {
		return packageName(p.first(from))
	}
	n := packageName(spec)
	if n != unversioned(spec) {
		return n // of a scope or a repository
	}
	// A package of this name may be a runner too: npx tsx x.ts, uvx mcp run x.py.
	if inner := c.then(append([]string{n}, rest...)).look(); telling(inner) {
		return inner
	}
	return n
}

// npm is for pnpm and yarn too, which run a project's script without "run".
func (c command) npm(args []string) string {
	p := npmFlags.parse(args)
	c = c.in(p.dir)
	word, rest := p.word()
	switch word {
	case "exec", "x", "dlx":
		return c.npx(rest)
	case "run", "run-script":
		p = npmFlags.parse(rest)
		c = c.in(p.dir)
		word, _ = p.word()
	}
	return c.target(word)
}

func (c command) bun(args []string) string {
	if word, rest := bun.parse(args).word(); word == "x" {
		return c.npx(rest)
	}
	return c.script(bun, args)
}

func (c command) uv(args []string) string {
	p := uvFlags.parse(args)
	c = c.in(p.dir)
	switch word, rest := p.word(); word {
	case "run":
		return c.uvRun(rest)
	case "tool":
		if len(rest) > 0 && rest[0] == "run" {
			return c.uvx(rest[1:])
		}
	}
	return ""
}

func (c command) uvRun(args []string) string {
	p := uvFlags.parse(args)
	if module := p.first("-m --module"); module != "" {
		return module
	}
	if word, _ := p.word(); strings.Contains(word, "://") {
		return c.target(word)
	}
	return c.in(p.dir).then(p.operands).name()
}
