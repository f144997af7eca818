/* Messages that the peer reads where they are: offers, recalls, deadlines, and keys that are revoked
 * without a barrier.
 *
 * The sender lends memory under a key of its own, offers it, and at any time may ask for it back
 * (recalled), or take it (the deadline). The receiver's interface publishes what it works on (the
 * flight word), looks at the key, and only then copies; between any two it may be stopped. Both
 * sides' stores wait in a buffer of one word until a fence, or until they leave by themselves: that
 * is what processors do. Checked:
 *   - nothing is copied from memory that is the application's again;
 *   - a key that is closed is met only by a reader whom the deadline overtook, and the connection is
 *     lost then;
 *   - both ends agree: what the sender counts as read is delivered, what it counts as left never
 *     is, or the connection is lost;
 *   - no deadlock; with -DLIVE: every loan ends.
 */
#ifndef LOANS
#define LOANS 2
#endif

mtype = { OPEN, READ, LEFT };

typedef Loan {
  bool lent;             /* the memory must not change */
  bool key;              /* as memory shows it */
  bool closing;          /* the owner's store that closes it, in its buffer */
  bool recalled;
  bool revoked;          /* nobody was waited for */
  mtype outcome;         /* what the sender's application hears */
  bool delivered;        /* to the receiver's application */
};
Loan loan[LOANS];
/* The status word of the receiver: how many offers are done with, and which of them were left. */
byte pulled;
bool left[LOANS];
byte flight;             /* as memory shows it: loan + 1 */
byte flight_next;        /* the interface's newest store, perhaps still in its buffer */
bool lost;
chan offers = [LOANS] of { byte };

/* Stores leave their buffers by themselves, too. */
active proctype buffers() {
end:
  do
  :: atomic { flight != flight_next -> flight = flight_next }
  :: atomic { loan[0].closing -> loan[0].closing = false; loan[0].key = false }
#if LOANS > 1
  :: atomic { loan[1].closing -> loan[1].closing = false; loan[1].key = false }
#endif
  od
}

inline fence_of_owner(i) {
  atomic {
    if
    :: loan[i].closing -> loan[i].closing = false; loan[i].key = false
    :: else -> skip
    fi
  }
}
inline fence_of_reader() { atomic { flight = flight_next } }

/* Closes the key and waits for who is inside. */
inline close_key(i) {
  loan[i].closing = true;
  fence_of_owner(i);
  (flight != i + 1);
}

inline settle(i, how) {
  close_key(i);
  atomic { loan[i].lent = false; loan[i].outcome = how }
}

active proctype sender() {
  byte i = 0;
  do
  :: i < LOANS ->
     atomic { loan[i].lent = true; loan[i].key = true; loan[i].outcome = OPEN };
     offers!i;
     do
     :: atomic { pulled > i && !left[i] -> skip }; settle(i, READ); break
     :: atomic { pulled > i && left[i] -> skip }; settle(i, LEFT); break
     :: !loan[i].recalled -> loan[i].recalled = true
     :: loan[i].recalled && !loan[i].revoked ->   /* the deadline */
        loan[i].revoked = true;
        settle(i, LEFT);
        break
     :: lost -> settle(i, LEFT); break
     od;
     i++
  :: i == LOANS -> break
  od;
  /* The receiver's word about what was taken from it: it may have been too late. */
  i = 0;
  do
  :: i < LOANS && loan[i].revoked ->
     do
     :: atomic { pulled > i && !left[i] -> lost = true }; break
     :: pulled > i && left[i] -> break
     :: lost -> break
     od;
     i++
  :: i < LOANS && !loan[i].revoked -> i++
  :: i == LOANS -> break
  od
}

active proctype receiver() {
  byte i = 0;
  bool live;
end:
  do
  :: offers?i ->
     if
     :: loan[i].recalled ->     /* nobody has begun to read it: then nobody will */
        atomic { left[i] = true; pulled++ }
     :: else ->
        /* the interface reads */
        flight_next = i + 1;
        live = loan[i].key;     /* marked: only says that a fence is needed */
        fence_of_reader();
        live = loan[i].key;
        if
        :: !live ->
           assert(loan[i].revoked || lost);
           flight_next = 0;
           lost = true;
           break
        :: else ->
           assert(loan[i].lent);   /* the copy */
           flight_next = 0;
           loan[i].delivered = true;
           pulled++
        fi
     fi
  :: lost -> break
  od
}

#define AGREED(i) (lost || \
  (loan[i].outcome == READ && loan[i].delivered) || \
  (loan[i].outcome == LEFT && !loan[i].delivered))

active proctype judge() {
  /* Everything that is going to happen has happened. */
  timeout ->
  assert(AGREED(0));
#if LOANS > 1
  assert(AGREED(1));
#endif
}

#ifdef LIVE
ltl ended { <> (lost || (loan[LOANS - 1].outcome == READ) || (loan[LOANS - 1].outcome == LEFT)) }
#endif
