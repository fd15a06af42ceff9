// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

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

// answersWithin bounds each question to the journal, which can be as large as a disk. Tests change it.
var answersWithin = 10 * time.Second

// ErrSlow is of a journal that has not answered within some seconds.
var ErrSlow = errors.New("journalctl has not answered in time")

// command returns a call of journalctl that is killed when it takes too long. finish returns the error of the
// call, and has to follow.
func (j *Journal) command(args []string) (cmd *exec.Cmd, finish func(error) error) {
	ctx, cancel := context.WithTimeout(context.Background(), answersWithin)
	cmd = exec.CommandContext(ctx, j.journalctl, args...)
	cmd.WaitDelay = time.Second // a child of it may hold its output
	return cmd, func(err error) error {
		defer cancel()
		if err != nil && ctx.Err() != nil {
			return ErrSlow
		}
		return j.failed(err)
	}
}

// output is what journalctl prints.
func (j *Journal) output(args []string) ([]byte, error) {
	cmd, finish := j.command(args)
	text, err := cmd.Output()
	return text, finish(err)
}

// newest returns the server of the newest of these entries, and false if there is no entry. journalctl reads
// backwards, and ends with the first entry.
func (j *Journal) newest(matches []string) (server, bool, error) {
	args := append([]string{"--quiet", "--output=json", "--lines=1"}, matches...)
	entry, err := j.output(args)
	if err != nil {
		return server{}, false, err
	}
	s, ok := parseEntry(entry)
	return s, ok, nil
}

// stream has a function read the entries that journalctl prints, to the end.
func (j *Journal) stream(args []string, read func(entries io.Reader)) error {
	cmd, finish := j.command(args)
	var reason bytes.Buffer
	cmd.Stderr = &reason
	entries, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("read the journal: %w", finish(err))
	}
	read(entries)
	err = cmd.Wait()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		failed.Stderr = reason.Bytes() // Output does that, Wait does not
	}
	if err = finish(err); err != nil {
		return fmt.Errorf("read the journal: %w", err)
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
	// none, if it cannot be read: then the next call fails, too
	values, _ := j.output([]string{"--quiet", "--field=MCPSCOPE_CONVERSATION"})
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
