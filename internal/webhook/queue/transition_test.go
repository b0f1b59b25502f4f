package queue

import (
	"os"
	"strings"
	"testing"
	"time"

	"steward/internal/stamp"
)

// documented returns the cells of the table of lanes in docs/states.md, by event and state.
func documented(t *testing.T) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| event |")
	if !found {
		t.Fatal("docs/states.md has no table of events")
	}
	lines := strings.Split("| event |"+table, "\n")
	states := cellsOf(lines[0])[1:]
	all := map[string]map[string]string{}
	for _, line := range lines[2:] {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := cellsOf(line)
		all[cells[0]] = map[string]string{}
		for i, state := range states {
			all[cells[0]][state] = cells[i+1]
		}
	}
	return all
}

func cellsOf(line string) (cells []string) {
	for cell := range strings.SplitSeq(strings.Trim(line, "| "), "|") {
		cells = append(cells, strings.TrimSpace(cell))
	}
	return cells
}

// laneIn returns a lane in a state, whose lease is held or not, and the lanes that it is one of.
func laneIn(state laneState, leased bool) (*lanes, *lane) {
	now := time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC)
	l := newLanes(func() time.Time { return now }, 48, 1<<20)
	n := l.lane("d")
	n.state = state
	if leased {
		n.lease = stamp.Of(now).Add(LeaseFor)
	}
	return l, n
}

// happened returns what an event does to a lane, in the words of the table.
func happened(state laneState, e laneEvent, leased bool) (cell string) {
	defer func() {
		if recover() != nil {
			cell = "never"
		}
	}()
	l, n := laneIn(state, leased)
	action := l.fire(n, e)
	next := n.state
	if action == seekLease && leased && next == laneQueued { // the table has the event that follows apart
		next = laneWanted
	}
	var parts []string
	if next != state {
		parts = append(parts, next.String())
	}
	if action != noAction {
		parts = append(parts, action.String())
	}
	if len(parts) == 0 {
		return "–"
	}
	return strings.Join(parts, ", ")
}

// TestEveryTransitionIsDocumented walks all states and events, with a lease and without.
func TestEveryTransitionIsDocumented(t *testing.T) {
	table := documented(t)
	if len(table) != int(laneEvents) {
		t.Errorf("%d events are documented, want %d", len(table), laneEvents)
	}
	for state := range laneStates {
		for e := range laneEvents {
			want, found := table[e.String()][state.String()]
			if !found {
				t.Errorf("%s, %s: not documented", state, e)
			}
			for _, leased := range []bool{false, true} {
				if got := happened(state, e, leased); got != want {
					t.Errorf("%s, %s, leased: %v: got %q, want %q", state, e, leased, got, want)
				}
			}
		}
	}
}

// TestTransitionsDoTheirActions checks what each action does: who is signalled, and which lanes are read.
func TestTransitionsDoTheirActions(t *testing.T) {
	for state := range laneStates {
		for e := range laneEvents {
			if transitions[state][e].never {
				continue
			}
			for _, leased := range []bool{false, true} {
				l, n := laneIn(state, leased)
				action := l.fire(n, e)
				isQueued := action == waitForRead || action == seekLease && leased
				asks := action == askForLease || action == seekLease && !leased
				if isQueued != (len(l.queue) == 1) || isQueued != (len(l.reads) == 1) || isQueued && n.state != laneQueued {
					t.Errorf("%s, %s, leased: %v: %s, %d lanes to read, %d readers signalled", state, e, leased, n.state, len(l.queue), len(l.reads))
				}
				if asks != (len(l.leases) == 1) || asks && n.state != laneWanted {
					t.Errorf("%s, %s, leased: %v: %s, the lease loop is signalled: %d", state, e, leased, n.state, len(l.leases))
				}
			}
		}
	}
}

// TestOnlyAReadEndsAReading follows all events from a lane that is being read: nothing else lets another
// reader take it.
func TestOnlyAReadEndsAReading(t *testing.T) {
	for _, state := range []laneState{laneReading, laneStale} {
		for e := range laneEvents {
			if cell := transitions[state][e]; !cell.never && cell.next.isReading() == (e == readEnded) {
				t.Errorf("%s, %s: %s", state, e, cell.next)
			}
		}
	}
	for state := range laneStates {
		for e := range laneEvents {
			cell := transitions[state][e]
			if begins := !cell.never && cell.action == startRead; begins != (state == laneQueued && e == readerFree) {
				t.Errorf("%s, %s: begins a read: %v", state, e, begins)
			}
		}
	}
}
