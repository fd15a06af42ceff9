// SPDX-License-Identifier: Apache-2.0

// Command components writes what is linked into programs: as a list of components in SPDX's JSON,
// or with the text of every license, from the copies of the modules that Go has downloaded.
//
//	components sbom NAME VERSION PROGRAM…
//	components licenses PROGRAM…
//
// The same programs give the same bytes; the time in the list is SOURCE_DATE_EPOCH.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "components: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	switch {
	case len(args) > 3 && args[0] == "sbom":
		return sbom(args[1], args[2], args[3:], out)
	case len(args) > 1 && args[0] == "licenses":
		return licenses(args[1:], out)
	}
	return errors.New("usage: components sbom NAME VERSION PROGRAM… | components licenses PROGRAM…")
}

// module is one that is linked.
type module struct{ path, version string }

// linked are the modules of all programs, by path, and the version of Go.
func linked(programs []string) (all []module, goVersion string, err error) {
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", program, err)
		}
		goVersion = info.GoVersion
		for _, d := range info.Deps {
			if d.Replace != nil {
				d = d.Replace
			}
			if m := (module{d.Path, d.Version}); !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return all, goVersion, nil
}

// The parts of an SPDX document that we have something to say about.
type (
	document struct {
		SPDXVersion string         `json:"spdxVersion"`
		License     string         `json:"dataLicense"`
		ID          string         `json:"SPDXID"`
		Name        string         `json:"name"`
		Namespace   string         `json:"documentNamespace"`
		Creation    creation       `json:"creationInfo"`
		Packages    []component    `json:"packages"`
		Relations   []relationship `json:"relationships"`
	}
	creation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	component struct {
		ID        string `json:"SPDXID"`
		Name      string `json:"name"`
		Version   string `json:"versionInfo"`
		Download  string `json:"downloadLocation"`
		Analyzed  bool   `json:"filesAnalyzed"`
		Concluded string `json:"licenseConcluded"`
		Declared  string `json:"licenseDeclared"`
		Copyright string `json:"copyrightText"`
		Refs      []ref  `json:"externalRefs"`
	}
	ref struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	relationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

const unknown = "NOASSERTION"

func sbom(name, version string, programs []string, out io.Writer) error {
	modules, goVersion, err := linked(programs)
	if err != nil {
		return err
	}
	created, err := epoch()
	if err != nil {
		return err
	}
	d := document{SPDXVersion: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name + "-" + version}
	d.Creation = creation{created.Format(time.RFC3339), []string{"Tool: mcpscope-components"}}
	own := component{ID: "SPDXRef-Package-" + name, Name: name, Version: version, Download: unknown, Concluded: "Apache-2.0", Declared: "Apache-2.0", Copyright: unknown,
		Refs: []ref{purl("golang", "github.com/mcpscope/mcpscope", version)}}
	hash := sha256.New()
	for _, p := range programs {
		if err := digest(p, hash); err != nil {
			return err
		}
	}
	d.Namespace = fmt.Sprintf("https://github.com/mcpscope/mcpscope/sbom/%s-%x", version, hash.Sum(nil)[:16])
	d.Packages = append(d.Packages, own, component{ID: "SPDXRef-Package-go", Name: "go", Version: goVersion, Download: unknown, Concluded: "BSD-3-Clause", Declared: "BSD-3-Clause",
		Copyright: unknown, Refs: []ref{purl("golang", "stdlib", strings.TrimPrefix(goVersion, "go"))}})
	d.Relations = []relationship{{d.ID, "DESCRIBES", own.ID}, {own.ID, "STATIC_LINK", "SPDXRef-Package-go"}}
	for _, m := range modules {
		license := unknown
		if text, err := licenseOf(m); err == nil {
			license = identify(text)
		}
		c := component{ID: "SPDXRef-Package-" + identifier(m.path), Name: m.path, Version: m.version, Download: "https://" + m.path, Concluded: license, Declared: license,
			Copyright: unknown, Refs: []ref{purl("golang", m.path, m.version)}}
		d.Packages = append(d.Packages, c)
		d.Relations = append(d.Relations, relationship{own.ID, "STATIC_LINK", c.ID})
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(d)
}

func purl(kind, name, version string) ref {
	return ref{"PACKAGE-MANAGER", "purl", "pkg:" + kind + "/" + name + "@" + version}
}

var notInIdentifiers = regexp.MustCompile(`[^A-Za-z0-9.]+`)

func identifier(path string) string { return notInIdentifiers.ReplaceAllString(path, "-") }

func digest(file string, to io.Writer) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(to, f)
	return err
}

func epoch() (time.Time, error) {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// licenses writes every text, and refuses a module without one: it must not be distributed.
func licenses(programs []string, out io.Writer) error {
	modules, goVersion, err := linked(programs)
	if err != nil {
		return err
	}
	root, err := goEnv("GOROOT")
	if err != nil {
		return err
	}
	text, err := textIn(root)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "The programs of mcpscope contain the libraries below, under the licenses that follow.\n\n%s\nGo's standard library, %s\n\n%s\n", line, goVersion, text)
	for _, m := range modules {
		text, err := licenseOf(m)
		if err != nil {
			return fmt.Errorf("the license of %s %s: %w", m.path, m.version, err)
		}
		fmt.Fprintf(out, "%s\n%s %s\nLicense: %s\n\n%s\n", line, m.path, m.version, identify(text), text)
	}
	return nil
}

var line = strings.Repeat("-", 72)

func goEnv(name string) (string, error) {
	out, err := exec.Command("go", "env", name).Output()
	return strings.TrimSpace(string(out)), err
}

// licenseOf reads the texts of a module's licenses.
func licenseOf(m module) (string, error) {
	cache, err := goEnv("GOMODCACHE")
	if err != nil {
		return "", err
	}
	capitals := regexp.MustCompile(`[A-Z]`)
	path := capitals.ReplaceAllStringFunc(m.path, func(s string) string { return "!" + strings.ToLower(s) })
	return textIn(filepath.Join(cache, path+"@"+m.version))
}

var named = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|unlicense)([.-].*)?$`)

func textIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, e := range entries {
		if e.IsDir() || !named.MatchString(e.Name()) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		texts = append(texts, strings.TrimSpace(string(b))+"\n")
	}
	if len(texts) == 0 {
		return "", errors.New("there is no text of it")
	}
	return strings.Join(texts, "\n"), nil
}

// identify recognizes the licenses that are common in Go.
func identify(text string) string {
	plain := strings.Join(strings.Fields(text), " ")
	for _, known := range []struct{ id, words string }{
		{"Apache-2.0", "Apache License Version 2.0"},
		{"MPL-2.0", "Mozilla Public License"},
		{"BSD-3-Clause", "Neither the name of"},
		{"BSD-2-Clause", "Redistribution and use in source and binary forms"},
		{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose"},
		{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose"},
		{"MIT", "Permission is hereby granted, free of charge"},
	} {
		if strings.Contains(plain, known.words) {
			return known.id
		}
	}
	return unknown
}
