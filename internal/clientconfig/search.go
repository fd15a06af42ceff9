// SPDX-License-Identifier: Apache-2.0

package clientconfig

import "sync"

// Search finds the configurations of the calling user for one command, and reads each file once, whatever the
// command asks for: a client can have many megabytes in it.
type Search struct {
	everywhere    func() (Found, error)
	inAllProjects func() (Found, error)
}

// NewSearch reads nothing yet.
func NewSearch() *Search {
	s := &Search{everywhere: sync.OnceValues(everywhere)}
	s.inAllProjects = sync.OnceValues(func() (Found, error) {
		found, err := s.everywhere()
		if err != nil {
			return Found{}, err
		}
		return found.withProjects()
	})
	return s
}

// Everywhere are the files of every client that are found here, and all others that have a wrapped server:
// the backups name them.
func (s *Search) Everywhere() (Found, error) { return s.everywhere() }

// InAllProjects are the files of Everywhere and, from any directory, those of the user in the projects that
// clients list. It is for a search of processes: a person who wraps means the project that they are in.
func (s *Search) InAllProjects() (Found, error) { return s.inAllProjects() }
