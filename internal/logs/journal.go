// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"

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
		return nil, remedy.With(systemd.ErrNoJournal,
			"install systemd-journald and journalctl, or use mcpscope run --report FILE")
	}
	return &Journal{journalctl: journalctl, uid: os.Getuid()}, nil
}

// Become executes journalctl instead of this program. It returns only if it cannot.
func (j *Journal) Become(args []string) error {
	return unix.Exec(j.journalctl, append([]string{"journalctl"}, args...), os.Environ())
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

// journalctlError has the text that journalctl wrote to stderr.
func journalctlError(err error) error {
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("journalctl: %s", strings.TrimSpace(string(failed.Stderr)))
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
