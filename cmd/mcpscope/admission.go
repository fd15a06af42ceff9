// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/admission"
)

// noteWait prints with --verbose that a start waits for free memory.
func (v *invocation) noteWait(free admission.Free) {
	if v.Verbose {
		v.Note(fmt.Sprintf("%q waits for %s of free memory: now %s",
			v.values.Name, cli.HumanBytes(v.values.MinFree), freeText(free)))
	}
}

// failAdmission reports a start that waited for free memory in vain. The next step is in the same line, since
// it names one of the servers there.
func (v *invocation) failAdmission(err error) int {
	text := err.Error()
	var short *admission.ShortError
	if errors.As(err, &short) {
		text = shortText(short)
	}
	logFailure(v, text)
	writeFailure(v.server.Name, v.server.Places.Backend, v.server.Output.Report, errors.New(text), "")
	return v.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot start %q: %s", v.values.Name, text), "")
}

func shortText(e *admission.ShortError) string {
	text := fmt.Sprintf("after %s only %s, and min-free is %s",
		e.Within, freeText(e.Free), cli.HumanBytes(e.MinFree))
	if len(e.Largest) == 0 {
		return text + "; you have no running servers to stop: give a smaller --min-free"
	}
	var servers []string
	for _, use := range e.Largest {
		size := cli.HumanBytes(use.Bytes)
		if use.IsSum { // as in ls
			size = "~" + size
		}
		servers = append(servers, fmt.Sprintf("%s (%s) %s", use.Name, use.ID, size))
	}
	return fmt.Sprintf("%s; your largest servers are %s: mcpscope stop %s, or give a smaller --min-free",
		text, strings.Join(servers, ", "), e.Largest[0].ID)
}

func freeText(f admission.Free) string {
	text := cli.HumanBytes(f.Bytes) + " of memory is free"
	if f.Group != "" {
		text += " below the limit of " + f.Group
	}
	return text
}
