c     Updates of whole declare variables and of several sections, in Fortran's fixed form (2.14.4).
      module old
      implicit none
      integer n
      real*8 v(10)
      common /block/ n
!$acc declare create(v)
      integer :: the_number_of_steps_that_are_made = 0
!$acc declare create(the_number_of_steps_that_are_made)
      real, allocatable :: x(:)
!$acc declare create(x)
      contains
      subroutine one(y)
!$acc routine seq
      real*8 y
      y = v(3) + the_number_of_steps_that_are_made
      end subroutine
      end module
      program main
      use old
      implicit none
      real*8 y, w(20)
      integer i
      v = 3
      the_number_of_steps_that_are_made = 4
C$acc update device(v, the_number_of_steps_that_are_made) async(1)
c$acc+ if(the_number_of_steps_that_are_made .eq. 4)
!$acc wait(1)
      y = 0
!$acc parallel num_gangs(1) copy(y)
      call one(y)
!$acc end parallel
      if (y .ne. 7) stop 1
      w = 1
*$acc data copy(w(1:5), w(11:15)) copyin(y)
!$acc parallel loop present(w(11:15))
      do 10 i = 11, 15
        w(i) = 2
 10   continue
!$acc update self(w(11:11), w(14:
!$acc&  15))
      if (w(11) .ne. 2 .or. w(12) .ne. 1 .or. w(15) .ne. 2) stop 2
!$acc end data
      if (w(12) .ne. 2 .or. w(6) .ne. 1) stop 3
      if (.not. allocated(x))
     &  allocate (x(7))
      x = 5
!$acc update device(x)
!$acc parallel loop
      do 20 i = 1, 7
        x(i) = x(i) + 1
 20   continue
!$acc update self(x)
      if (x(7) .ne. 6) stop 4
      deallocate (x)
      print '(a)', 'PASS'
      end
