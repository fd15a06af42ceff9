// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/programs"
)

// The version is that of both programs, and a difference is a note.
func TestVersion(t *testing.T) {
	tool := fmt.Sprintf("mcpscopectl %s (%s)\n", programs.Version(), programs.Built())
	replaceRunner(t, "#!/bin/sh\necho v9\necho 'commit abc'\n")
	want := said{cli.ExitOK, "mcpscope v9 (commit abc)\n" + tool,
		"mcpscope: note: the programs have different versions; install both from the same release\n"}
	if s := say("version"); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
}

// Without the version of the runner, that of the tool is printed.
func TestVersionWithoutARunner(t *testing.T) {
	tool := fmt.Sprintf("mcpscopectl %s (%s)\n", programs.Version(), programs.Built())
	for text, want := range map[string]string{
		"":                    "mcpscope is not installed: there is no ",
		"#!/bin/sh\nexit 3\n": "mcpscope: exit status 3\n",
	} {
		t.Run(want, func(t *testing.T) {
			replaceRunner(t, text)
			s := say("version")
			const begin = "mcpscope: cannot read the version of mcpscope: "
			if s.status != cli.ExitFailure || s.out != tool || !strings.HasPrefix(s.err, begin) || !strings.Contains(s.err, want) {
				t.Errorf("%+v", s)
			}
		})
	}
}
