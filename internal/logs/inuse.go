// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/journal"
)

// inUseOften is how often a program has to have ended in use before a person is told of it once more.
const inUseOften = 2

// UsedLines are about programs that ended with servers again and again while others used them, since the
// boot. It has none without a journal.
func UsedLines(users group.Users) (lines []string) {
	source, err := Open()
	if err != nil {
		return nil
	}
	args := []string{"--quiet", "--all", "--output=json", "--output-fields=MCPSCOPE_IN_USE", "--boot"}
	args = append(args, anyOf(eventsAbout(users, journal.Ended)...)...)
	counts := map[string]int{}
	_ = source.stream(args, func(entries io.Reader) { // as far as the journal can be read
		countInUse(entries, counts)
		_, _ = io.Copy(io.Discard, entries) // journalctl would wait for a reader
	})
	return usedLines(counts)
}

func usedLines(counts map[string]int) (lines []string) {
	for name, times := range counts {
		if times >= inUseOften {
			const line = "%s ended with its server %s although others used it: " +
				"keep = [%q] in mcpscope.toml lets it stay"
			lines = append(lines, fmt.Sprintf(line, name, cli.Counted(times, "time"), name))
		}
	}
	slices.Sort(lines)
	return lines
}

// inUse is the text of a report.InUse.
var inUse = regexp.MustCompile(`^process \d+ \((.+)\) was in use: `)

// countInUse counts programs by their names. An entry may be forged.
func countInUse(entries io.Reader, counts map[string]int) {
	decoder := json.NewDecoder(entries)
	for {
		var entry struct {
			InUse any `json:"MCPSCOPE_IN_USE"` // a text, or a list of texts, or anything else
		}
		if decoder.Decode(&entry) != nil {
			return
		}
		texts, isList := entry.InUse.([]any)
		if !isList {
			texts = []any{entry.InUse}
		}
		for _, one := range texts {
			said, _ := one.(string) // "" is no use
			if found := inUse.FindStringSubmatch(said); found != nil {
				counts[found[1]]++
			}
		}
	}
}
