// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/mcpscope/mcpscope/internal/diagnose"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// tryLimits says why servers can't be limited, "" if they can. It has a server of that kind run:
// once a gateway has started one, nothing but the server itself could be refused.
func tryLimits(v *settings.Values) (why, hint string) {
	if len(v.Limits.Files) == 0 || v.Limits.BestEffort {
		return "", ""
	}
	flags := []string{"--slice", v.Slice, "--limits=" + settings.LimitsStrict}
	for _, l := range v.Limits.Files {
		flags = append(flags, "--set", l.String())
	}
	by, err := diagnose.FindPrograms()
	if err != nil {
		return err.Error(), ""
	}
	t := diagnose.Trial{Backend: v.Backend, Name: "limits"}
	out, err := t.Run(by, flags...)
	t.Read(out)
	if t.Reason == "" && err != nil {
		t.Reason = err.Error()
	}
	return t.Reason, t.Remedy
}
