! Variables that a procedure shares with its internal procedures: GCC maps the frame that holds them all beside those that clauses name.
! What the region writes comes back, what is present stays in use, and what the host changes meanwhile is not written over.
! BUILD core
module work
  use check
  implicit none
contains
  subroutine run(n)
    integer, intent(in) :: n
    real(8) :: u(20), v(20), s
    integer :: i, counter
    u = 1
    v = 5
    s = 2
    counter = n
    !$acc parallel loop copy(u)
    do i = 1, 20
      u(i) = u(i)*s + i
    end do
    call equal('copy', sum(u), 40d0 + 210)
    !$acc kernels copyout(u)
    u = s
    v = v + u
    !$acc end kernels
    call equal('kernels', sum(u), 40d0)
    call equal('implicit', sum(v), 140d0)
    ! Present alone, beside others of the same frame.
    !$acc data copy(u)
    call grow()
    !$acc parallel loop present(u)
    do i = 1, 20
      u(i) = u(i) + v(i)
    end do
    !$acc parallel loop present(u) copy(v)
    do i = 1, 20
      v(i) = v(i) + u(i)
    end do
    call equal('v', sum(v), 380d0)
    call equal('not yet', u(1), merge(2d0, 11d0, separate()))
    !$acc end data
    call equal('u', sum(u), 220d0)
    !$acc enter data copyin(s)
    s = 7
    !$acc parallel loop copy(u) present(s)
    do i = 1, 20
      u(i) = s
    end do
    !$acc exit data delete(s)
    call equal('s of the device', sum(u), merge(40d0, 140d0, separate()))
    ! In a queue, while the host goes on with what it shares.
    do i = 1, 20
      u(i) = 0
    end do
    do counter = 1, 15
      !$acc parallel loop copy(u) async(2)
      do i = 1, 20
        u(i) = u(i) + i
      end do
      call count_(counter)
    end do
    !$acc wait(2)
    call equal('the host''s loop', counter, 16)
    call equal('s', s, 7d0 + 120)
    call equal('async', sum(u), 15*210d0)
  contains
    subroutine grow()
      integer :: i
      !$acc parallel loop present(u)
      do i = 1, 20
        u(i) = u(i) + counter/n
      end do
      do i = 1, 20
        v(i) = v(i) + counter/n
      end do
    end subroutine
    subroutine count_(k)
      integer, intent(in) :: k
      s = s + k
      if (counter /= k) s = -1000
    end subroutine
  end subroutine
end module
program main
  use check
  use work
  implicit none
  call run(4)
  call run(9)
  call pass()
end program
