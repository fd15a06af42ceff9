// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/remedy"
)

// Journal is the journal of this host, as journalctl reads it.
type Journal struct {
	journalctl string // its file
	uid        int    // of the calling user
}

// Open returns an error on a host without a journal or journalctl.
func Open() (*Journal, error) {
	journalctl, err := programs.Lookup("journalctl")
	if err != nil || !systemd.JournalExists() {
		return nil, remedy.With(systemd.ErrNoJournal, "mcpscope run --report FILE writes the same facts, "+
			"also in a container; or install systemd-journald and journalctl")
	}
	return &Journal{journalctl: journalctl, uid: os.Getuid()}, nil
}

// newest returns the server of the newest of these entries, and false if there is no entry. journalctl reads
// backwards, and ends with the first entry.
func (j *Journal) newest(matches []string) (server, bool, error) {
	args := append([]string{"--quiet", "--output=json", "--lines=1"}, matches...)
	entry, err := exec.Command(j.journalctl, args...).Output()
	if err != nil {
		return server{}, false, journalctlError(err)
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
		return fmt.Errorf("read the journal: %w", journalctlError(err))
	}
	return nil
}

// Parts of texts of journalctl.
const (
	noAccess = "insufficient permissions" // a user may not read any file
	badTime  = "Failed to parse timestamp"
)

// journalctlError has the text that journalctl wrote to stderr, or its remedy.
func journalctlError(err error) error {
	failed, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return err
	}
	text := strings.TrimSpace(string(failed.Stderr))
	if strings.Contains(text, noAccess) {
		return remedy.With(errors.New("this user may not read any of its files"),
			"sudo mcpscope logs, or join the group that may: sudo usermod -aG systemd-journal $USER")
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
		UID  string `json:"_UID"`
		ID   string `json:"MCPSCOPE_ID"`
		Name string `json:"MCPSCOPE_NAME"`
	}
	if err := json.Unmarshal(entry, &fields); err != nil || fields.ID == "" {
		return server{}, false
	}
	return server{id: fields.ID, name: fields.Name, uid: fields.UID}, true
}
