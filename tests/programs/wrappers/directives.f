c     Directives that GCC refuses, in Fortran's fixed form.
      program main
      implicit none
      include 'openacc_lib.h'
      integer n, i
      parameter (n = 1000)
      integer a(n)
C$acc set device_num(
c$acc+  1)
      if (acc_get_device_num(acc_device_current) .ne. 1) stop 1
!$acc set device_num(0) default_async(2)
      if (acc_get_device_num(acc_device_current) .ne. 0) stop 2
      if (acc_get_default_async() .ne. 2) stop 3
*$acc parallel loop copyout(a) async(2)
      do 10 i = 1, n
        a(i) = i
 10   continue
!$acc set device_num(1)
!$acc wait(devnum:acc_get_device_num(acc_device_current) - 1:queues:2,
!$acc&  3)
      if (a(n) .ne. n) stop 4
      if (.not. acc_async_test_all_device(0)) stop 5
!$acc shutdown
      print '(a)', 'PASS'
      end
