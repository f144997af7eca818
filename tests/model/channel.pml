/* Growth, shrink, refusal, time-out and crash of a channel, both directions at once.
 *
 * A direction has a sender, a receiver, and the network interface that executes the sender's writes
 * in order: it checks the key, and only then copies; between the two it may be stopped for as long
 * as it likes. Rings are numbered 0 (small) and 1 (large). Checked:
 *   - a write never meets a revoked key, and never touches memory that was freed;
 *   - what the receiver ends the channel for, a frame more than there are slots, never happens;
 *   - messages arrive once, unchanged, in order, whatever the sizes;
 *   - no deadlock: every process ends, or its side is dead;
 *   - with -DLIVE: everything is delivered in the end (ltl delivered); with -DCALM nobody dies.
 * Requests are numbered; an answer to an older one is not acted on. A receiver that revokes a key
 * waits until no write is between check and copy under it (drained).
 */
#ifndef MESSAGES
#define MESSAGES 3
#endif
/* Requests that a sender makes at most: what bounds the states. */
#ifndef MOVES
#define MOVES 3
#endif
#ifndef LARGE
#define LARGE 1  /* which message is oversized */
#endif
#define IS_LARGE(i) ((i) == LARGE)

mtype = { DATA, PIECE, MOVE, LAST, ABANDON };
mtype = { NOTHING, GRANTED, REFUSED };

typedef Ring {
  bool mem;   /* allocated at the receiver */
  bool key;   /* registered */
};
typedef Direction {
  Ring ring[2];
  byte flight;          /* ring + 1 while a write is between check and copy */
  mtype answer;         /* the acknowledgement slot in the sender's memory */
  byte answer_number;
  byte in_use;          /* slots that the receiver has not given back */
  byte delivered;
  bool finished;
};
Direction dir[2];
bool dead[2];           /* a process: sends in direction d, receives in direction 1 - d */
chan wire0 = [2] of { mtype, byte, byte };    /* the send queue: kind, ring, value */
chan wire1 = [2] of { mtype, byte, byte };
chan landed0 = [4] of { mtype, byte, byte };  /* what lies in the receiver's rings */
chan landed1 = [4] of { mtype, byte, byte };
bool crashes;

#define ALIVE(p) (!dead[p])
#define WINDOW 2
#define ROOM(d) (dir[d].in_use < WINDOW)

/* The interface: executes the writes of direction d in order. */
proctype interface(byte d; chan wire; chan landed) {
  mtype kind; byte ring, value;
end:
  do
  :: wire?kind, ring, value ->
     atomic {
       if
       :: dead[d] || dead[1 - d] -> goto gone
       :: else ->
          assert(dir[d].ring[ring].key);
          dir[d].flight = ring + 1
       fi
     };
     /* stopped here, for any time */
     atomic {
       if
       :: dead[d] -> dir[d].flight = 0; goto gone
       :: else ->
          assert(dir[d].ring[ring].mem);
          landed!kind, ring, value;
          dir[d].flight = 0
       fi
     }
  :: dead[d] || dead[1 - d] -> goto gone
  od;
gone: skip
}

inline post(kind, ring_number, value) {
  (ROOM(d) || dead[d] || dead[1 - d]);
  if
  :: dead[d] || dead[1 - d] -> goto gone
  :: else ->
     atomic { dir[d].in_use++; wire!kind, ring_number, value }
  fi
}

/* Asks, waits for the answer, a refusal or a time-out; moves or stays. */
inline move_to(target) {
  atomic {
    number++;
    dir[d].answer = NOTHING;
  };
  post(MOVE, current, number);
  do
  :: atomic { dir[d].answer == GRANTED && dir[d].answer_number == number ->
     dir[d].answer = NOTHING };
     post(LAST, current, target);
     current = target;
     break
  :: dir[d].answer == REFUSED && dir[d].answer_number == number -> break
  :: timeouts > 0 ->       /* no answer in time: one more wait is as good as a repetition */
     timeouts--;
     if
     :: post(ABANDON, current, number); break
     :: skip
     fi
  :: dead[d] || dead[1 - d] -> goto gone
  od
}

proctype sender(byte d; chan wire) {
  byte current = 0, number = 0, i = 0, timeouts = 1;
  do
  :: i < MESSAGES ->
     if
     :: IS_LARGE(i) && current == 0 ->
        if
        :: number < MOVES -> move_to(1)
        :: else -> skip
        fi;
        if
        :: current == 1 -> post(DATA, current, i)
        :: else -> post(PIECE, current, i); post(DATA, current, i)  /* in pieces, the last is DATA */
        fi
     :: else -> post(DATA, current, i)
     fi;
     i++
  :: i == MESSAGES -> break
  :: i < MESSAGES && !IS_LARGE(i) && current == 1 && number < MOVES -> move_to(0)  /* idle */
  od;
  dir[d].finished = true;
gone: skip
}

inline drain(r) {
  dir[d].ring[r].key = false;
  /* a dead sender counts as drained: its interface copies nothing any more */
  (dir[d].flight != r + 1 || dead[d])
}

proctype receiver(byte d; chan landed) {
  mtype kind; byte ring, value, current = 0, pending = 2, expected = 0;
end:
  do
  :: landed?kind, ring, value ->
     assert(dir[d].in_use <= WINDOW);
     if
     :: kind == DATA || kind == PIECE ->
        assert(ring == current);
        assert(value == expected);
        if
        :: kind == DATA -> expected++; dir[d].delivered++
        :: else -> skip
        fi
     :: kind == MOVE ->
        assert(ring == current);
        if
        :: atomic {  /* provision, then answer (682, 684) */
             pending = 1 - current;
             dir[d].ring[pending].mem = true;
             dir[d].ring[pending].key = true };
           atomic { dir[d].answer = GRANTED; dir[d].answer_number = value }
        :: atomic { dir[d].answer = REFUSED; dir[d].answer_number = value }
        fi
     :: kind == ABANDON ->
        if
        :: pending < 2 ->
           drain(pending);
           dir[d].ring[pending].mem = false;
           pending = 2
        :: else -> skip
        fi
     :: kind == LAST ->
        assert(pending == value);
        drain(current);
        dir[d].ring[current].mem = false;
        current = pending;
        pending = 2
     fi;
     dir[d].in_use--
  :: empty(landed) && (dead[1 - d] || dead[d]) -> break
  od;
  /* the end of the channel: keys first, then memory */
  drain(0); drain(1);
  atomic { dir[d].ring[0].mem = false; dir[d].ring[1].mem = false }
}

proctype killer() {
  if
  :: dead[0] = true; crashes = true
  :: dead[1] = true; crashes = true
  :: skip
  fi
}

init {
  atomic {
    dir[0].ring[0].mem = true; dir[0].ring[0].key = true;
    dir[1].ring[0].mem = true; dir[1].ring[0].key = true;
    dir[0].answer = NOTHING; dir[1].answer = NOTHING;
    run interface(0, wire0, landed0);
    run sender(0, wire0); run receiver(0, landed0);
#ifdef BOTH
    run interface(1, wire1, landed1);
    run sender(1, wire1); run receiver(1, landed1);
#endif
#ifndef CALM
    run killer()
#endif
  }
}

#ifdef LIVE
ltl delivered { <> (dir[0].delivered == MESSAGES) }
#endif
