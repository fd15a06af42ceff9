// SPDX-License-Identifier: Apache-2.0

package proc

// Table has the processes that there were at one moment, for a command that looks at all of them for several
// reasons. What it reads of a process is read once. It is not for several goroutines.
type Table struct{ all []*Process }

// Process is one of a table. It may have ended since, and then its texts are empty, or those from before.
type Process struct {
	PID       int
	comm      *string
	arguments []string
	hasRead   bool // of arguments
	status    *Status
}

// tableArguments is enough for the command line of a server, and for a path with its environment.
const tableArguments = 16 << 10

// Take lists all processes. Without /proc there are none.
func Take() *Table {
	t := &Table{}
	_ = Each(func(pid int) bool {
		t.all = append(t.all, &Process{PID: pid})
		return true
	})
	return t
}

// All are the processes, in the order of their numbers.
func (t *Table) All() []*Process { return t.all }

// Comm is the name of the process (proc_pid_comm(5)), which it can choose; "" if it cannot be read.
func (p *Process) Comm() string {
	if p.comm == nil {
		comm, _ := Comm(p.PID)
		p.comm = &comm
	}
	return *p.comm
}

// Arguments is the command line, of at most 16 KiB; empty if it cannot be read, and for a zombie.
func (p *Process) Arguments() []string {
	if !p.hasRead {
		p.arguments = Arguments(p.PID, tableArguments)
		p.hasRead = true
	}
	return p.arguments
}

// Status is the status of the process; zero if it cannot be read.
func (p *Process) Status() Status {
	if p.status == nil {
		st, _ := ReadStatus(p.PID)
		p.status = &st
	}
	return *p.status
}
