! The host's memory as a letter box between queues: what one brings home another takes away, for arrays of every size and for a
! section of one.
! EXPECT device-memory
program main
  use check
  implicit none
  integer :: sizes(6) = [1, 3, 40, 1000, 20000, 300000], k
  do k = 1, size(sizes)
    call box(sizes(k))
  end do
  call pass()
contains
  subroutine box(n)
    integer, intent(in) :: n
    integer, allocatable :: mail(:), other(:)
    integer :: i, round
    allocate (mail(n), other(n))
    mail = 1
    other = 0
    !$acc enter data copyin(mail, other)
    do round = 1, 4
      !$acc parallel loop present(mail) async(1)
      do i = 1, n
        mail(i) = mail(i)*3
      end do
      !$acc update self(mail) async(1)
      !$acc parallel loop present(mail) async(1)
      do i = 1, n
        mail(i) = -1
      end do
      !$acc wait(1) async(2)
      !$acc update device(mail) async(2)
      !$acc parallel loop present(mail, other) async(2)
      do i = 1, n
        other(i) = other(i) + mail(i)
      end do
      !$acc wait(2) async(1)
    end do
    !$acc exit data copyout(other) delete(mail) async(2)
    !$acc wait
    call equal('other(1)', other(1), 3 + 9 + 27 + 81)
    call equal('all', count(other /= 120), 0)
    call equal('mail', count(mail /= 81), 0)
  end subroutine
end program
