// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/remedy"
)

// Journal is the journal of this host, as journalctl reads it.
type Journal struct {
	journalctl string // its file
	asRoot     string // the command with which a user prints entries that only root may read
}

// Open returns an error on a host without a journal or journalctl.
func Open() (*Journal, error) {
	journalctl, err := programs.Lookup("journalctl")
	if err != nil || !systemd.JournalExists() {
		return nil, remedy.With(systemd.ErrNoJournal, "mcpscope run --report FILE writes the same facts, "+
			"also in a container; or install systemd-journald and journalctl")
	}
	return &Journal{journalctl: journalctl, asRoot: "sudo mcpscope logs --all-users"}, nil
}

// newest returns the server of the newest of these entries, and false if there is no entry. journalctl reads
// backwards, and ends with the first entry.
func (j *Journal) newest(matches []string) (server, bool, error) {
	args := append([]string{"--quiet", "--output=json", "--lines=1"}, matches...)
	entry, err := exec.Command(j.journalctl, args...).Output()
	if err != nil {
		return server{}, false, j.failed(err)
	}
	s, ok := parseEntry(entry)
	return s, ok, nil
}

// stream has a function read the entries that journalctl prints, to the end.
func (j *Journal) stream(args []string, read func(entries io.Reader)) error {
	cmd := exec.Command(j.journalctl, args...)
	var reason bytes.Buffer
	cmd.Stderr = &reason
	entries, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	read(entries)
	err = cmd.Wait()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		failed.Stderr = reason.Bytes() // Output does that, Wait does not
	}
	if err != nil {
		return fmt.Errorf("read the journal: %w", j.failed(err))
	}
	return nil
}

// Parts of texts of journalctl.
const (
	noAccess = "insufficient permissions" // a user may not read any file
	badTime  = "Failed to parse timestamp"
)

// conversations returns the ids of conversations in the journal that begin so, none for "". journalctl finds
// whole values alone.
func (j *Journal) conversations(beginning string) []string {
	if beginning == "" {
		return nil
	}
	ids := []string{beginning} // also if there is none yet: --follow waits for it
	all := exec.Command(j.journalctl, "--quiet", "--field=MCPSCOPE_CONVERSATION")
	values, _ := all.Output() // none, if it cannot be read: then the next call fails, too
	for id := range strings.Lines(string(values)) {
		id = strings.TrimSuffix(id, "\n")
		if strings.HasPrefix(id, beginning) && id != beginning {
			ids = append(ids, id)
		}
	}
	return ids
}

// failed has the text that journalctl wrote to stderr, or its remedy.
func (j *Journal) failed(err error) error {
	failed, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	text := strings.TrimSpace(string(failed.Stderr))
	if strings.Contains(text, noAccess) {
		return remedy.With(errors.New("this user may not read any of its files"),
			j.asRoot+", or join the group that may: sudo usermod -aG systemd-journal $USER")
	}
	err = fmt.Errorf("journalctl: %s", text)
	if strings.Contains(text, badTime) {
		const step = `a duration (2h, 1d), or a time: today, yesterday, "2026-11-20 8:00"`
		return remedy.With(err, step)
	}
	return err
}

// parseEntry returns false for an entry that is not of mcpscope: its fields are texts.
func parseEntry(entry []byte) (server, bool) {
	var fields struct {
		UID   string `json:"_UID"`
		Owner string `json:"MCPSCOPE_OWNER"`
		ID    string `json:"MCPSCOPE_ID"`
		Name  string `json:"MCPSCOPE_NAME"`
	}
	if err := json.Unmarshal(entry, &fields); err != nil || fields.ID == "" {
		return server{}, false
	}
	found := server{id: fields.ID, name: fields.Name, uid: fields.UID}
	if fields.UID == "0" && fields.Owner != "" {
		found.uid = fields.Owner
	}
	return found, true
}
