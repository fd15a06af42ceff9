// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/containerd/cgroups/v3/cgroup2"

	"github.com/mcpscope/mcpscope/scope"
)

// engineWithin is for an engine to list containers. One that takes longer is left out of the figures.
const engineWithin = 5 * time.Second

// silent are the engines that did not answer, and when: each delays a list of many servers once.
var silent sync.Map

const silentFor = 30 * time.Second

// addContainers adds what an engine runs for the server. Those are groups of the engine's, which anyone may read.
func (f *figures) addContainers(s *scope.Listed) {
	for _, dir := range containerGroups(s) {
		m, err := cgroup2.Load("/", cgroup2.WithMountpoint(dir))
		if err != nil {
			continue // it has ended
		}
		st, err := m.StatFiltered(cgroup2.StatCPU | cgroup2.StatMemory)
		pids, gone := m.Procs(true)
		if err != nil || gone != nil {
			continue // as above
		}
		f.Processes += len(pids)
		f.CPU += time.Duration(st.CPU.UsageUsec) * time.Microsecond
		sum := st.Memory.Usage
		if f.Memory != nil {
			sum += *f.Memory
		}
		f.Memory, f.PeakBytes = &sum, nil // the peaks of two groups were not at the same time
	}
}

// containerGroups are the directories of the containers with the server's label.
func containerGroups(s *scope.Listed) (dirs []string) {
	query := s.ContainerQuery()
	if query == nil {
		return nil
	}
	inside, err := os.Readlink(s.Directory())
	root, _, found := strings.Cut(inside, s.Group)
	if err != nil || !found {
		return nil
	}
	if since, is := silent.Load(query[0]); is && time.Since(since.(time.Time)) < silentFor {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), engineWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, query[0], query[1:]...)
	cmd.WaitDelay = time.Millisecond // for whom it has left with its stdout
	out, err := cmd.Output()
	if ctx.Err() != nil {
		silent.Store(query[0], time.Now())
	}
	ids := strings.Fields(string(out))
	if err != nil || len(ids) == 0 {
		return nil
	}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error { // as far as it can be read
		if err != nil || !d.IsDir() {
			return nil
		}
		for _, id := range ids { // docker-ID.scope, libpod-ID.scope, or ID alone
			if len(id) == 64 && strings.TrimSuffix(d.Name()[strings.LastIndex(d.Name(), "-")+1:], ".scope") == id && !strings.Contains(d.Name(), "conmon") {
				dirs = append(dirs, path)
				return fs.SkipDir
			}
		}
		return nil
	})
	return dirs
}
