// A program in Go that calls libibverbs by cgo, from several of its threads.
package main

// #cgo LDFLAGS: -libverbs
// #include <infiniband/verbs.h>
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"sync"
)

func use(device *C.struct_ibv_device) error {
	runtime.LockOSThread()
	context := C.ibv_open_device(device)
	if context == nil {
		return fmt.Errorf("not opened")
	}
	defer C.ibv_close_device(context)
	pd := C.ibv_alloc_pd(context)
	if pd == nil {
		return fmt.Errorf("no protection domain")
	}
	defer C.ibv_dealloc_pd(pd)
	memory := C.calloc(1, 4096)
	defer C.free(memory)
	region := C.ibv_reg_mr_iova2(pd, memory, 4096, C.uint64_t(0), C.IBV_ACCESS_LOCAL_WRITE)
	if region == nil {
		return fmt.Errorf("not registered")
	}
	C.ibv_dereg_mr(region)
	return nil
}

func main() {
	var count C.int
	list := C.ibv_get_device_list(&count)
	if list == nil || count == 0 {
		fmt.Println("no device")
		os.Exit(1)
	}
	defer C.ibv_free_device_list(list)
	var all sync.WaitGroup
	failed := make(chan error, 8)
	for i := 0; i < 8; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := use(*list); err != nil {
				failed <- err
			}
		}()
	}
	all.Wait()
	if len(failed) > 0 {
		fmt.Println(<-failed)
		os.Exit(1)
	}
	fmt.Println("opened", C.GoString(C.ibv_get_device_name(*list)))
}
