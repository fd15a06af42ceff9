// SPDX-License-Identifier: Apache-2.0

package group

import (
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// Manager is the systemd that has a group as a scope, or was asked to.
type Manager struct{ of *ControlGroup }

// Manager returns the systemd that has the group as a scope.
func (g *ControlGroup) Manager() Manager { return Manager{g} }

// OpenScope opens the directory of a scope that a manager has started, by its path below root.
func (m Manager) OpenScope(root *cgroup.Group, path string) (err error) {
	m.of.top, err = root.Child(path)
	return err
}

// AwaitAnswer waits for the answer of a manager that was asked to adopt the group.
func (m Manager) AwaitAnswer() {
	if m.of.adopted != nil {
		<-m.of.adopted
	}
}

// Adopt asks a manager to take the group over, if it is meant to be a scope.
func (m Manager) Adopt() {
	if m.of.AdoptBy != nil {
		m.of.Top() // which is not opened by two goroutines at the same time
		m.of.adopted = make(chan struct{})
		go func() {
			defer close(m.of.adopted)
			m.of.AdoptBy(m.of)
		}()
	}
}

// HasScope reports whether systemd has a scope: then the guard has a leaf in it. systemd removes the
// directory when it is empty. If another process removes it first, systemd misses the event and keeps the
// scope.
func (m Manager) HasScope() bool {
	_, err := m.of.Top().Read(names.GuardsName + "/cgroup.type")
	return err == nil
}

// Nudge makes systemd check an empty scope again. systemd 252 misses the end of a scope whose first process
// exits at once, or that has a threaded group. It checks again at each change of cgroup.events, also for a
// freeze.
func (m Manager) Nudge() {
	if m.of.Managed && !Populated(m.of.Top()) && m.of.Top().Freeze() == nil {
		_ = m.of.Top().Thaw() // it was removed
	}
}

// AwaitRemoval reports whether another process removes the group in time. It polls: a user has 128 inotify
// instances, which can be in use.
func (m Manager) AwaitRemoval() (removed bool) {
	for pause := time.Millisecond; pause < policy.ForgottenAfter; pause *= 2 {
		if _, err := m.of.Top().Read("cgroup.type"); err != nil {
			return true
		}
		time.Sleep(pause)
	}
	return false
}
