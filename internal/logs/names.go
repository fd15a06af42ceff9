// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/journal"
)

// namesArguments let journalctl print the names of the newest entries alone: the journal can have years.
var namesArguments = []string{"--quiet", "--output=json", "--output-fields=MCPSCOPE_NAME", "--lines=10000"}

// withNames gives the error about an unknown name the names in the journal as its remedy, unless a server
// with a similar name runs.
func (j *Journal) withNames(err error, q *Query) error {
	unknown, isUnknown := errors.AsType[*selection.UnknownError](err)
	if !isUnknown || unknown.IsNear {
		return err
	}
	return remedy.With(err, selection.Hint(unknown.Name, j.names(q), "in the journal"))
}

// names returns the names of the servers that were started, or have ended, in the asked time. It returns none
// if the journal cannot be read.
func (j *Journal) names(q *Query) []string {
	args := slices.Clone(namesArguments)
	if q.Since != "" {
		args = append(args, "--since="+q.Since)
	}
	args = append(args, j.events(&q.Servers, "", journal.Started, journal.Ended)...)
	var names []string
	_ = j.stream(args, func(entries io.Reader) { names = readNames(entries) }) // it is only for a hint
	return names
}

func readNames(entries io.Reader) (names []string) {
	lines := bufio.NewScanner(entries)
	for lines.Scan() {
		var entry struct {
			Name any `json:"MCPSCOPE_NAME"` // a text, or anything that a process has written
		}
		err := json.Unmarshal(lines.Bytes(), &entry)
		name, isText := entry.Name.(string)
		if err == nil && isText && name != "" {
			names = append(names, name)
		}
	}
	_, _ = io.Copy(io.Discard, entries) // after a line that is too long: journalctl would wait for a reader
	return names
}
