#!/bin/sh
# The guest's first process: brings up rxe, then runs the commands that come over a virtual
# console, one on each line, "NUMBER COMMAND", each in the background. What a command wrote comes back
# when it has ended: "@NUMBER|a line of it" and at last "@NUMBER=its exit status".
export PATH=/bin:/usr/bin:/usr/sbin HOME=/tmp
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm /tmp
mount -t devpts pts /dev/pts
mount -t tmpfs tmp /tmp
mount -t tmpfs shm /dev/shm
for module in $(cat /modules/order); do insmod "/modules/$module" || echo "insmod $module failed"; done
echo 0 > /proc/sys/net/ipv6/conf/all/accept_dad
echo 0 > /proc/sys/net/ipv6/conf/default/accept_dad
echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad
value() { sed -n "s/.*$1=\([^ ]*\).*/\1/p" /proc/cmdline; }
ip link set lo up
ip link set eth0 mtu "$(value guest_mtu)"
ip link set eth0 up
ip addr add "$(value guest_ipv4)/24" dev eth0
ip -6 addr add "$(value guest_ipv6)/64" dev eth0
rdma link add rxe0 type rxe netdev eth0 || echo "rdma link add failed"
ulimit -l unlimited
stty -F /dev/hvc0 raw -echo
exec < /dev/hvc0 > /dev/hvc0 2>&1
sleep 1
gids=/sys/class/infiniband/rxe0/ports/1/gids
for n in 0 1 2 3 4 5; do echo "@gid|$n $(cat $gids/$n 2>/dev/null)"; done
echo "@ready=0"
while read -r number command; do
  (
    sh -c "$command" > "/tmp/$number.out" 2>&1 < /dev/null
    status=$?
    { sed "s/^/@$number|/" "/tmp/$number.out"; echo; echo "@$number=$status"; } > "/tmp/$number.all"
    until mkdir /tmp/speaking 2> /dev/null; do usleep 5000; done  # one at a time
    cat "/tmp/$number.all"
    rmdir /tmp/speaking
    rm -f "/tmp/$number.out" "/tmp/$number.all"
  ) &
done
poweroff -f
