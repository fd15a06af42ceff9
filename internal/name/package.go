// SPDX-License-Identifier: Apache-2.0

package name

import "strings"

// packageName is the name in what npm, pip and their relatives take for a
// package: a name with a scope, a version or extras, a repository, a path.
func packageName(spec string) string {
	spec, _, _ = strings.Cut(strings.TrimSpace(spec), " ") // "foo >= 1", "foo @ git+https://…"
	if isPath(spec) {
		return command{}.file(spec)
	}
	if repo, ok := strings.CutPrefix(spec, "git@"); ok {
		return repository(strings.Replace(repo, ":", "/", 1))
	}
	if scheme, rest, ok := strings.Cut(spec, ":"); ok && !strings.ContainsAny(scheme, "@/[=") {
		spec = rest // npm:pkg, jsr:@scope/pkg, github:user/repo, git+https://host/repo
	}
	if rest, ok := strings.CutPrefix(spec, "//"); ok {
		return repository(rest)
	}
	return fromParts(parts(unversioned(spec)))
}

func isPath(spec string) bool {
	return absolute(spec) || strings.HasPrefix(spec, ".") || strings.HasPrefix(spec, `\`)
}

// unversioned is "@scope/pkg" of "@scope/pkg@1.2", "pkg" of "pkg[extra]>=1".
func unversioned(spec string) string {
	if spec == "" {
		return ""
	}
	if i := strings.IndexAny(spec[1:], "@[=<>!~;#?("); i >= 0 {
		spec = spec[:i+1]
	}
	return spec
}

// repository is foo of host/owner/foo.git@ref#subdirectory.
func repository(rest string) string {
	p := urlParts(rest)
	if len(p) > 1 {
		p = p[1:] // without the host
	}
	for i := range p {
		// The reference may have slashes, the owner has no "@" in it.
		if name, _, ok := strings.Cut(p[i], "@"); ok && name != "" {
			p[i], p = name, p[:i+1]
			break
		}
	}
	if n := len(p); n > 0 {
		p[n-1] = strings.TrimSuffix(p[n-1], ".git")
	}
	return fromParts(p)
}

// imageName is foo of registry:5000/team/foo:1.2@sha256:….
func imageName(ref string) string {
	if _, rest, ok := strings.Cut(ref, "://"); ok {
		ref = rest // docker://, which Podman takes
	}
	ref, _, _ = strings.Cut(ref, "@")
	p := parts(ref)
	if len(p) > 1 && (strings.ContainsAny(p[0], ".:") || p[0] == "localhost") {
		p = p[1:] // the registry
	}
	if n := len(p); n > 0 {
		p[n-1], _, _ = strings.Cut(p[n-1], ":")
	}
	return fromParts(p)
}
