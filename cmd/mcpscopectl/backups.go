// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mcpscope/mcpscope/internal/clients"
)

// backupsName is the directory of all backups, in that of our state.
const backupsName = "backups"

// backupOf is where the old content of a file is kept: not beside it, for it may hold keys, and the file may be in a
// repository.
func backupOf(file string) (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home := os.Getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", errors.New("there is no place for a backup: HOME is not set")
		}
		state = filepath.Join(home, ".local", "state")
	}
	path := filepath.Join(state, "mcpscope", backupsName, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("make a place for the backup: %w", err)
	}
	return path, nil
}

// pruneBackups removes the directories that a backup has left, if no other is in them.
func pruneBackups(backup string) {
	for dir := filepath.Dir(backup); os.Remove(dir) == nil && filepath.Base(dir) != backupsName; {
		dir = filepath.Dir(dir)
	}
}

// removeOldBackup removes the backup that older versions have left beside a file, if it says the same as that now.
func removeOldBackup(p planned) {
	beside := p.file.Target + clients.BackupSuffix
	if old, err := os.ReadFile(beside); err == nil && bytes.Equal(old, p.change.Data) {
		_ = os.Remove(beside) // it is as it was
	}
}
