// SPDX-License-Identifier: Apache-2.0

// Package nix tests the package for Nix as far as that is possible without nixpkgs.
package nix

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func output(t *testing.T, dir string, command ...string) string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v", command, err)
	}
	return strings.TrimSpace(string(out))
}

func attribute(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("package.nix")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`\b` + name + ` = "([^"]*)";`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("package.nix has no %s", name)
	}
	return string(found[1])
}

// TestVersion: the package has the version that the changelog begins with.
func TestVersion(t *testing.T) {
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^## .*?([0-9]+\.[0-9]+\.[0-9]+)`).FindSubmatch(text)
	if found == nil || string(found[1]) != attribute(t, "version") {
		t.Errorf("version %s, and in the changelog %q", attribute(t, "version"), found)
	}
}

// TestVendorHash: Nix refuses the modules of go.mod unless they have this hash.
func TestVendorHash(t *testing.T) {
	vendor := filepath.Join(t.TempDir(), "vendor")
	output(t, "../..", "go", "mod", "vendor", "-o", vendor)
	hash := output(t, ".", "go", "run", "tailscale.com/cmd/nardump@v1.90.9", "-sri", vendor)
	if got := attribute(t, "vendorHash"); got != hash {
		t.Errorf("vendorHash is %q, and the modules have %q: write that into package.nix", got, hash)
	}
}

// stubs take the place of those parts of nixpkgs that the package uses. The result is the argument of
// buildGoModule.
const stubs = `import ./package.nix {
	lib = { cleanSource = path: toString path; licenses.asl20 = "asl20"; };
	buildGoModule = package: package;
	commit = "0123abc";
}`

// TestPhases runs the phases of the package on this checkout, as Nix would.
func TestPhases(t *testing.T) {
	if _, err := exec.LookPath("nix-instantiate"); err != nil {
		t.Skip("no nix here, which evaluates the package: apt install nix-bin")
	}
	// A store of root's Nix is closed to other users. Nothing is built in one here.
	output(t, "../..", "nix-instantiate", "--store", "dummy://", "--parse", "flake.nix")
	var phases struct{ BuildPhase, InstallPhase string }
	evaluated := output(t, ".", "nix-instantiate", "--store", "dummy://", "--eval", "--strict", "--json", "-E", stubs)
	if err := json.Unmarshal([]byte(evaluated), &phases); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(t.TempDir(), "source")
	output(t, "../..", "git", "clone", "--quiet", ".", source)
	result := filepath.Join(t.TempDir(), "out")
	script := "set -eu; runHook() { :; }; export out=" + result + "\n" + phases.BuildPhase + phases.InstallPhase
	output(t, source, "bash", "-c", script)
	version := output(t, result, "bin/mcpscope", "version")
	if !strings.HasPrefix(version, "mcpscope v"+attribute(t, "version")) || !strings.Contains(version, "0123abc") {
		t.Errorf("the package has %q", version)
	}
}
