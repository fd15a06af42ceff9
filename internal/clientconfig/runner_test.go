// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/programs"
)

// A program that was given has to be executable, and to have the name by which unwrap recognizes it.
func TestInstalledGiven(t *testing.T) {
	h := newHome(t)
	h.write("bin/other", "#!/bin/sh\n")
	h.write("data/mcpscope", "")
	if err := os.Chmod(h.path("data/mcpscope"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Installed("bin/mcpscope")
	if err != nil || got != h.program {
		t.Errorf("%s, %v, want %s", got, err, h.program)
	}
	for given, want := range map[string]string{
		"bin/other":     h.path("bin/other") + " is not called mcpscope: unwrap would not recognize it",
		"bin/none":      "no such file or directory",
		"data/mcpscope": "permission denied",
	} {
		if _, err := Installed(given); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", given, err, want)
		}
	}
}

// Without an argument it is the runner beside this program, which a test has not.
func TestInstalledBesideThisProgram(t *testing.T) {
	_, err := Installed("")
	if _, ok := errors.AsType[*programs.MissingError](err); !ok {
		t.Errorf("%v", err)
	}
}
