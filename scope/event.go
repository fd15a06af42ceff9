//go:build linux

package scope

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/journal"
)

// Event is a kind of entry in the journal.
type Event string

const (
	EventStarted     Event = "started"
	EventEnded       Event = "ended"
	EventKilled      Event = "killed" // members had to be
	EventOutOfMemory Event = "out-of-memory"
	EventPIDsRefused Event = "pids-refused"
	EventFrozen      Event = "frozen"
	EventThawed      Event = "thawed"
	EventSwept       Event = "swept"
	EventNote        Event = "note"
	// EventStopRequested is of who asks for a stop.
	EventStopRequested Event = "asked-to-stop"
)

// MessageIDs are what the journal finds events by. They stay the same for ever.
func MessageIDs() map[Event]string {
	return map[Event]string{
		EventStarted:     "c3c54b04cd8149ca85498690168c08b9",
		EventEnded:       "91271e0caed64105a0c3c1d4802c3a93",
		EventKilled:      "b4e25e2ac9cb42fdac0db736db3dd0e2",
		EventOutOfMemory: "46388ec4ba7f4e888f60aa0a3bc8c269",
		EventPIDsRefused: "3de0d1a745614ddb8cefd5f00225299b",
		EventFrozen:      "c4da185547cd46349f526b0af5700a60",
		EventThawed:      "ca55d3e560a845a9ba78ac3db41c27dd",
		EventSwept:       "a791711570c24d8980007a89a52bd556",
		EventNote:        "53f8aa8a5b22421cb9d953af98b92a85",

		EventStopRequested: "8b5ee0be042140a3a730cea457e60653",
	}
}

// Fields of an event. The server's arguments and environment are in none.
const (
	FieldEvent      = "MCPSCOPE_EVENT"
	FieldID         = "MCPSCOPE_ID"
	FieldName       = "MCPSCOPE_NAME"
	FieldClient     = "MCPSCOPE_CLIENT"
	FieldClientPID  = "MCPSCOPE_CLIENT_PID"
	FieldClientUnit = "MCPSCOPE_CLIENT_UNIT"
	FieldBackend    = "MCPSCOPE_BACKEND"
	FieldStderr     = "MCPSCOPE_STDERR" // of EventStarted
	FieldCause      = "MCPSCOPE_CAUSE"  // this one and the next ones of EventEnded
	FieldSignal     = "MCPSCOPE_SIGNAL"
	FieldExitStatus = "MCPSCOPE_EXIT_STATUS"
	FieldExitSignal = "MCPSCOPE_EXIT_SIGNAL"
	FieldSeconds    = "MCPSCOPE_SECONDS"
	FieldCPU        = "MCPSCOPE_CPU_SECONDS"
	FieldMemoryPeak = "MCPSCOPE_MEMORY_PEAK_BYTES"
	FieldStuck      = "MCPSCOPE_STUCK"        // of EventEnded and EventSwept; once for each
	FieldKilled     = "MCPSCOPE_KILLED"       // of EventKilled; once for each of the first 16
	FieldTotal      = "MCPSCOPE_KILLED_TOTAL" // of EventKilled
	FieldOOMKills   = "MCPSCOPE_OOM_KILLS"    // of EventOutOfMemory, with FieldMemoryPeak
	FieldMemoryMax  = "MCPSCOPE_MEMORY_MAX_BYTES"
	FieldBiggest    = "MCPSCOPE_BIGGEST"      // of EventOutOfMemory; once for each
	FieldRefused    = "MCPSCOPE_PIDS_REFUSED" // of EventPIDsRefused
	FieldPIDsMax    = "MCPSCOPE_PIDS_MAX"
	FieldNote       = "MCPSCOPE_NOTE" // of EventNote
	FieldBy         = "MCPSCOPE_BY"   // of EventStopRequested
)

// LogIdentifier is what the journal knows the lines of a server's stderr by.
func LogIdentifier(server, id string) string { return directoryName(server, id) }

// subject is the server that an event is about.
type subject struct {
	id, name string
	client   clientFacts
	backend  Backend
}

// tell writes an event, if there is a journal that takes it at once. Nobody hears of it
// otherwise: whoever wants to be sure has the report.
func (s subject) tell(e Event, p journal.Priority, what string, more ...journal.Field) {
	_ = journal.Send(s.entry(e, p, what, more...))
}

func (s subject) entry(e Event, p journal.Priority, what string, more ...journal.Field) []byte {
	fields := []journal.Field{
		{Name: "MESSAGE", Value: fmt.Sprintf("%s (%s) %s", s.name, s.id, what)}, {Name: "MESSAGE_ID", Value: MessageIDs()[e]},
		{Name: "SYSLOG_IDENTIFIER", Value: "mcpscope"}, {Name: FieldEvent, Value: string(e)}, {Name: FieldID, Value: s.id}, {Name: FieldName, Value: s.name},
	}
	if s.client.PID > 0 {
		fields = append(fields, journal.Field{Name: FieldClient, Value: s.client.Name}, journal.Field{Name: FieldClientPID, Value: strconv.Itoa(s.client.PID)})
	}
	for _, f := range []journal.Field{{Name: FieldClientUnit, Value: s.client.Unit}, {Name: FieldBackend, Value: string(s.backend)}} {
		if f.Value != "" {
			fields = append(fields, f)
		}
	}
	return journal.Entry(p, append(fields, more...)...)
}

func (s *supervisor) subject() subject {
	return subject{id: s.group.ident(), name: s.config.Name, client: s.config.Client, backend: s.backend}
}

func (s *Listed) subject() subject {
	return subject{id: s.ID, name: s.Name, client: s.Client, backend: s.Backend}
}

// subject of an orphan, by its attributes.
func (g *controlGroup) subject() subject {
	attr := func(name string) string {
		value, _, _ := g.payload.Attr(name) // none, if it can't be read
		return value
	}
	s := subject{id: g.id, name: attr(attrName), client: parseClient(attr(attrClient))}
	s.client.Unit = attr(attrUnit)
	return s
}

// tellStart says that the server runs. Notes so far are about the start.
func (s *supervisor) tellStart() {
	about := s.subject()
	about.tell(EventStarted, journal.Info, fmt.Sprintf("started by %s[%d], %s", about.client.Name, about.client.PID, about.backend),
		journal.Field{Name: FieldStderr, Value: string(s.stderr)})
	s.tellNotes()
}

// TellStop writes to the journal who is about to ask for a stop. The uid is what the journal knows of the writer.
func (s *Listed) TellStop(by string) {
	s.subject().tell(EventStopRequested, journal.Info, "is to stop: "+by, journal.Field{Name: FieldBy, Value: by})
}

// tellNotes tells each note once.
func (s *supervisor) tellNotes() {
	for _, text := range s.notes[s.notesTold:] {
		s.subject().tell(EventNote, journal.Info, "note: "+text, journal.Field{Name: FieldNote, Value: text})
	}
	s.notesTold = len(s.notes)
}

// tellEnd says why and how the server ended.
func (s *supervisor) tellEnd(r *Report) {
	about := s.subject()
	r.tellShortages(about)
	if r.KilledTotal > 0 {
		fields := []journal.Field{{Name: FieldTotal, Value: strconv.Itoa(r.KilledTotal)}}
		var all []string
		for _, k := range s.killed[:min(len(s.killed), lastWordMost)] {
			fields = append(fields, journal.Field{Name: FieldKilled, Value: k.String()})
			all = append(all, k.String())
		}
		about.tell(EventKilled, journal.Notice, fmt.Sprintf("had to be killed, %d in all: %s", r.KilledTotal, strings.Join(all, "; ")), fields...)
	}
	s.tellNotes()
	_ = journal.Send(r.entry(about)) // as tell
}

// entry is the event of an end.
func (r *Report) entry(about subject) []byte {
	fields := []journal.Field{
		{Name: FieldCause, Value: string(r.Cause)}, {Name: FieldSeconds, Value: fmt.Sprintf("%.3f", r.Seconds)},
	}
	text := fmt.Sprintf("ended after %v: %s", r.Ended.Sub(r.Started).Round(time.Millisecond), r.Cause)
	add := func(name, value, said string) {
		if value != "" {
			fields, text = append(fields, journal.Field{Name: name, Value: value}), text+said+value
		}
	}
	add(FieldSignal, r.Signal, " ")
	if r.ExitStatus != nil {
		add(FieldExitStatus, strconv.Itoa(*r.ExitStatus), ", exit status ")
	}
	add(FieldExitSignal, r.ExitSignal, ", by ")
	if r.CPUSeconds != nil {
		add(FieldCPU, fmt.Sprintf("%.3f", *r.CPUSeconds), ", seconds of CPU ")
	}
	if r.MemoryPeakBytes != nil {
		add(FieldMemoryPeak, strconv.FormatUint(*r.MemoryPeakBytes, 10), ", peak memory ")
	}
	for _, stuck := range r.Stuck {
		add(FieldStuck, stuck, ", left: ")
	}
	return about.entry(EventEnded, journal.Info, text, fields...)
}

// connectStderr makes our descriptor 2, which the main process will have, the journal's.
func (s *supervisor) connectStderr() {
	s.stderr = StderrInherit
	if s.config.Stderr != StderrJournal {
		return
	}
	fd, err := journal.Stream(LogIdentifier(s.config.Name, s.group.ident()), journal.Info)
	if err == nil {
		err = unix.Dup3(fd, 2, 0)
		_ = unix.Close(fd) // descriptor 2 is the one
	}
	if err != nil {
		s.note("stderr is the client's: " + err.Error())
		return
	}
	s.stderr = StderrJournal
}

// Stderr is where the server's stderr goes.
type Stderr string

const (
	// StderrInherit is the client's own.
	StderrInherit Stderr = "inherit"
	// StderrJournal is a stream of the journal or, where there is none, the client's own.
	StderrJournal Stderr = "journal"
)

// ParseStderr accepts "inherit" and "journal".
func ParseStderr(s string) (Stderr, error) {
	switch where := Stderr(s); where {
	case StderrInherit, StderrJournal:
		return where, nil
	}
	return "", fmt.Errorf("%q is neither inherit nor journal", s)
}
