! Kinds of variables against ways to bring them to the device, in each case compared with the same loops on the host.
! Written by a generator of random combinations.
module variables
  use check
  implicit none
  type t14
  integer :: head
  integer :: v(-3:60)
  real(8) :: tail
  end type
  type t15
  integer :: head
  complex(8), allocatable :: v(:,:)
  real(8) :: tail
  end type
  type t16
  integer :: head
  integer(2), pointer :: v(:)
  real(8) :: tail
  end type
  type t17
  integer :: head
  complex, allocatable :: v(:)
  real(8) :: tail
  end type
  type t18
  integer :: head
  integer(8) :: v(-3:1,1:3)
  real(8) :: tail
  end type
  type t19
  integer :: head
  real, pointer :: v(:,:)
  real(8) :: tail
  end type
  type t20
  integer :: head
  integer(2) :: v
  real(8) :: tail
  character(3) :: s
  end type
  type t21
  integer :: head
  real :: v
  real(8) :: tail
  character(3) :: s
  end type
  type t22
  integer :: head
  complex :: v
  real(8) :: tail
  character(3) :: s
  end type
  type t24
  integer :: head
  integer(8), allocatable :: v(:)
  real(8) :: tail
  end type
  type u24
  integer :: head
  type(t24) :: w
  end type
  type(t19) :: x19
contains
  subroutine w13(a)
    integer(8), optional :: a(:)
    integer :: got, i0, lo0, hi0
    lo0=lbound(a,1); hi0=ubound(a,1)
    do i0 = lo0, hi0
      a(i0) = 3*i0
    end do
    !$acc enter data copyin(a) async(1)
    !$acc kernels present(a) async(1)
    do i0 = lo0, hi0
      a(i0) = a(i0) * 2 + (i0)
    end do
    !$acc end kernels
    !$acc update self(a) async(1)
    !$acc exit data delete(a) async(1)
    !$acc wait
    got = int(sum(a) + 7*a(lo0) + 5*a(hi0))
    do i0 = lo0, hi0
      a(i0) = 3*i0
    end do
    do i0 = lo0, hi0
      a(i0) = a(i0) * 2 + (i0)
    end do
    call equal("opt async_enter kernels", got, int(sum(a) + 7*a(lo0) + 5*a(hi0)))
  end subroutine
  subroutine s13()
    integer(8), allocatable :: b(:)
    allocate(b(0:0))
    call w13(b)
  end subroutine
  subroutine s14()
    type(t14) :: x
    integer :: got, mid, i0, lo0, hi0
    lo0=lbound(x%v,1); hi0=ubound(x%v,1)
    do i0 = lo0, hi0
      x%v(i0) = 3*i0
    end do
    mid = (lo0+hi0)/2
    !$acc enter data copyin(x%v)
    !$acc parallel loop present(x%v)
    do i0 = lo0, hi0
      x%v(i0) = x%v(i0) * 2 + (i0)
    end do
    !$acc update self(x%v(lo0:mid))
    !$acc update self(x%v(mid+1:hi0))
    !$acc exit data delete(x%v)
    got = int(sum(x%v) + 7*x%v(lo0) + 5*x%v(hi0))
    do i0 = lo0, hi0
      x%v(i0) = 3*i0
    end do
    do i0 = lo0, hi0
      x%v(i0) = x%v(i0) * 2 + (i0)
    end do
    call equal("comp_static section_update parallel loop", got, int(sum(x%v) + 7*x%v(lo0) + 5*x%v(hi0)))
  end subroutine
  subroutine s15()
    type(t15) :: x
    integer :: got, i0, lo0, hi0, i1, lo1, hi1
    allocate(x%v(1:5,1:5))
    lo0=lbound(x%v,1); hi0=ubound(x%v,1)
    lo1=lbound(x%v,2); hi1=ubound(x%v,2)
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      x%v(i0,i1) = cmplx(3*i0+6*i1,1.0)
    end do
    end do
    !$acc kernels copy(x%v)
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      x%v(i0,i1) = x%v(i0,i1) * (0.0,1.0) + (i0+i1)
    end do
    end do
    !$acc end kernels
    !$acc kernels copy(x%v)
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      x%v(i0,i1) = x%v(i0,i1) * (0.0,1.0) + (i0+i1)
    end do
    end do
    !$acc end kernels
    got = nint(2*real(sum(x%v) + 7*x%v(lo0,lo1) + 5*x%v(hi0,hi1)) + 6*aimag(sum(x%v) + 7*x%v(lo0,lo1) + 5*x%v(hi0,hi1)))
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      x%v(i0,i1) = cmplx(3*i0+6*i1,1.0)
    end do
    end do
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      x%v(i0,i1) = x%v(i0,i1) * (0.0,1.0) + (i0+i1)
    end do
    end do
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      x%v(i0,i1) = x%v(i0,i1) * (0.0,1.0) + (i0+i1)
    end do
    end do
    call equal("comp_alloc twice kernels", got, nint(2*real(sum(x%v) + 7*x%v(lo0,lo1) + 5*x%v(hi0,hi1)) + &
      & 6*aimag(sum(x%v) + 7*x%v(lo0,lo1) + 5*x%v(hi0,hi1))))
  end subroutine
  subroutine s16()
    type(t16) :: x
    integer :: got, i0, lo0, hi0
    allocate(x%v(1:16))
    lo0=lbound(x%v,1); hi0=ubound(x%v,1)
    do i0 = lo0, hi0
      x%v(i0) = int(3*i0,2)
    end do
    !$acc serial copy(x%v)
    do i0 = lo0, hi0
      x%v(i0) = x%v(i0) + int(i0,2)
    end do
    !$acc end serial
    got = int(sum(x%v) + 7*x%v(lo0) + 5*x%v(hi0))
    do i0 = lo0, hi0
      x%v(i0) = int(3*i0,2)
    end do
    do i0 = lo0, hi0
      x%v(i0) = x%v(i0) + int(i0,2)
    end do
    call equal("comp_ptr copy serial", got, int(sum(x%v) + 7*x%v(lo0) + 5*x%v(hi0)))
  end subroutine
  subroutine w17(x)
    type(t17), intent(inout) :: x
    integer :: got, i0, lo0, hi0
    lo0=lbound(x%v,1); hi0=ubound(x%v,1)
    do i0 = lo0, hi0
      x%v(i0) = cmplx(3*i0,1.0)
    end do
    !$acc enter data copyin(x)
    !$acc enter data copyin(x%v)
    !$acc parallel loop present(x)
    do i0 = lo0, hi0
      x%v(i0) = x%v(i0) * (0.0,1.0) + (i0)
    end do
    !$acc update self(x%v)
    !$acc exit data delete(x%v)
    !$acc exit data delete(x)
    got = nint(2*real(sum(x%v) + 7*x%v(lo0) + 5*x%v(hi0)) + 6*aimag(sum(x%v) + 7*x%v(lo0) + 5*x%v(hi0)))
    do i0 = lo0, hi0
      x%v(i0) = cmplx(3*i0,1.0)
    end do
    do i0 = lo0, hi0
      x%v(i0) = x%v(i0) * (0.0,1.0) + (i0)
    end do
    call equal("comp_alloc_dummy deep parallel loop", got, nint(2*real(sum(x%v) + 7*x%v(lo0) + 5*x%v(hi0)) + &
      & 6*aimag(sum(x%v) + 7*x%v(lo0) + 5*x%v(hi0))))
  end subroutine
  subroutine s17()
    type(t17) :: x
    allocate(x%v(-3:-3))
    call w17(x)
  end subroutine
  subroutine w18(x)
    type(t18), intent(inout) :: x
    integer :: got, i0, lo0, hi0, i1, lo1, hi1
    lo0=lbound(x%v,1); hi0=ubound(x%v,1)
    lo1=lbound(x%v,2); hi1=ubound(x%v,2)
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      x%v(i0,i1) = 3*i0+6*i1
    end do
    end do
    !$acc serial copy(x)
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      x%v(i0,i1) = x%v(i0,i1) * 2 + (i0+i1)
    end do
    end do
    !$acc end serial
    got = int(sum(x%v) + 7*x%v(lo0,lo1) + 5*x%v(hi0,hi1))
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      x%v(i0,i1) = 3*i0+6*i1
    end do
    end do
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      x%v(i0,i1) = x%v(i0,i1) * 2 + (i0+i1)
    end do
    end do
    call equal("comp_static_dummy whole serial", got, int(sum(x%v) + 7*x%v(lo0,lo1) + 5*x%v(hi0,hi1)))
  end subroutine
  subroutine s18()
    type(t18) :: x
    call w18(x)
  end subroutine
  subroutine s19()
    integer :: got, i0, lo0, hi0, i1, lo1, hi1
    allocate(x19%v(0:3,-3:4))
    lo0=lbound(x19%v,1); hi0=ubound(x19%v,1)
    lo1=lbound(x19%v,2); hi1=ubound(x19%v,2)
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      x19%v(i0,i1) = real(3*i0+6*i1)
    end do
    end do
    !$acc data copyin(x19%v)
    !$acc parallel loop collapse(2) present(x19%v)
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      x19%v(i0,i1) = x19%v(i0,i1) * 0.5 + (i0+i1)
    end do
    end do
    !$acc update self(x19%v)
    !$acc end data
    got = nint(2*(sum(x19%v) + 7*x19%v(lo0,lo1) + 5*x19%v(hi0,hi1)))
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      x19%v(i0,i1) = real(3*i0+6*i1)
    end do
    end do
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      x19%v(i0,i1) = x19%v(i0,i1) * 0.5 + (i0+i1)
    end do
    end do
    call equal("modcomp data_present parallel loop(2)", got, nint(2*(sum(x19%v) + 7*x19%v(lo0,lo1) + 5*x19%v(hi0,hi1))))
  end subroutine
  subroutine s20()
    type(t20), target :: c(1:1)
    integer(2), pointer :: a(:)
    integer :: got, i0, lo0, hi0
    c%head = 7; c%tail = 3; c%s = "abc"
    a => c%v
    lo0=lbound(a,1); hi0=ubound(a,1)
    do i0 = lo0, hi0
      a(i0) = int(3*i0,2)
    end do
    !$acc enter data copyin(a)
    !$acc parallel loop present(a)
    do i0 = lo0, hi0
      a(i0) = a(i0) + int(i0,2)
    end do
    !$acc exit data copyout(a)
    got = int(sum(a) + 7*a(lo0) + 5*a(hi0))
    do i0 = lo0, hi0
      a(i0) = int(3*i0,2)
    end do
    do i0 = lo0, hi0
      a(i0) = a(i0) + int(i0,2)
    end do
    call equal("cp_static enter parallel loop", got, int(sum(a) + 7*a(lo0) + 5*a(hi0)))
    call equal("cp_static enter parallel loop: others", sum(c%head)+nint(sum(c%tail))+count(c%s == "abc"), 11)
  end subroutine
  subroutine s21()
    type(t21), allocatable, target :: c(:,:)
    real, pointer :: a(:,:)
    integer :: got, i0, lo0, hi0, i1, lo1, hi1
    allocate(c(1:8,1:5))
    c%head = 7; c%tail = 3; c%s = "abc"
    a => c%v
    lo0=lbound(a,1); hi0=ubound(a,1)
    lo1=lbound(a,2); hi1=ubound(a,2)
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1) = real(3*i0+6*i1)
    end do
    end do
    !$acc enter data create(a)
    !$acc update device(a)
    !$acc parallel loop collapse(2) present(a)
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1) = a(i0,i1) * 0.5 + (i0+i1)
    end do
    end do
    !$acc update self(a)
    !$acc exit data delete(a)
    got = nint(2*(sum(a) + 7*a(lo0,lo1) + 5*a(hi0,hi1)))
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1) = real(3*i0+6*i1)
    end do
    end do
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1) = a(i0,i1) * 0.5 + (i0+i1)
    end do
    end do
    call equal("cp_alloc enter_create parallel loop(2)", got, nint(2*(sum(a) + 7*a(lo0,lo1) + 5*a(hi0,hi1))))
    call equal("cp_alloc enter_create parallel loop(2): others", sum(c%head)+nint(sum(c%tail))+count(c%s == "abc"), 440)
  end subroutine
  subroutine s22()
    type(t22), pointer :: c(:,:,:)
    complex, pointer :: a(:,:,:)
    integer :: got, i0, lo0, hi0, i1, lo1, hi1, i2, lo2, hi2
    allocate(c(1:8,0:4,-3:0))
    c%head = 7; c%tail = 3; c%s = "abc"
    a => c%v
    lo0=lbound(a,1); hi0=ubound(a,1)
    lo1=lbound(a,2); hi1=ubound(a,2)
    lo2=lbound(a,3); hi2=ubound(a,3)
    do i2 = lo2, hi2
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1,i2) = cmplx(3*i0+6*i1+9*i2,1.0)
    end do
    end do
    end do
    !$acc serial copy(a) async(5)
    do i2 = lo2, hi2
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1,i2) = a(i0,i1,i2) * (0.0,1.0) + (i0+i1+i2)
    end do
    end do
    end do
    !$acc end serial
    !$acc wait(5)
    got = nint(2*real(sum(a) + 7*a(lo0,lo1,lo2) + 5*a(hi0,hi1,hi2)) + 6*aimag(sum(a) + 7*a(lo0,lo1,lo2) + 5*a(hi0,hi1,hi2)))
    do i2 = lo2, hi2
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1,i2) = cmplx(3*i0+6*i1+9*i2,1.0)
    end do
    end do
    end do
    do i2 = lo2, hi2
    do i1 = lo1, hi1
    do i0 = lo0, hi0
      a(i0,i1,i2) = a(i0,i1,i2) * (0.0,1.0) + (i0+i1+i2)
    end do
    end do
    end do
    call equal("cp_ptr async serial", got, nint(2*real(sum(a) + 7*a(lo0,lo1,lo2) + 5*a(hi0,hi1,hi2)) + 6*aimag(sum(a) + &
      & 7*a(lo0,lo1,lo2) + 5*a(hi0,hi1,hi2))))
    call equal("cp_ptr async serial: others", sum(c%head)+nint(sum(c%tail))+count(c%s == "abc"), 1760)
  end subroutine
  subroutine s23()
    complex(8), target :: b(1:16)
    complex(8), pointer :: a(:)
    integer :: got, i0, lo0, hi0
    a => b(1:8)
    lo0=lbound(a,1); hi0=ubound(a,1)
    do i0 = lo0, hi0
      a(i0) = cmplx(3*i0,1.0)
    end do
    !$acc enter data copyin(a) async(5)
    !$acc parallel loop present(a) async(5)
    do i0 = lo0, hi0
      a(i0) = a(i0) * (0.0,1.0) + (i0)
    end do
    !$acc update self(a) async(5)
    !$acc exit data delete(a) async(5)
    !$acc wait
    got = nint(2*real(sum(a) + 7*a(lo0) + 5*a(hi0)) + 6*aimag(sum(a) + 7*a(lo0) + 5*a(hi0)))
    do i0 = lo0, hi0
      a(i0) = cmplx(3*i0,1.0)
    end do
    do i0 = lo0, hi0
      a(i0) = a(i0) * (0.0,1.0) + (i0)
    end do
    call equal("section_ptr async_enter parallel loop", got, nint(2*real(sum(a) + 7*a(lo0) + 5*a(hi0)) + 6*aimag(sum(a) &
      & + 7*a(lo0) + 5*a(hi0))))
  end subroutine
  subroutine s24()
    type(u24) :: x
    integer :: got, mid, i0, lo0, hi0
    allocate(x%w%v(-3:96))
    lo0=lbound(x%w%v,1); hi0=ubound(x%w%v,1)
    do i0 = lo0, hi0
      x%w%v(i0) = 3*i0
    end do
    mid = (lo0+hi0)/2
    !$acc enter data copyin(x%w%v)
    !$acc parallel loop present(x%w%v)
    do i0 = lo0, hi0
      x%w%v(i0) = x%w%v(i0) * 2 + (i0)
    end do
    !$acc update self(x%w%v(lo0:mid))
    !$acc update self(x%w%v(mid+1:hi0))
    !$acc exit data delete(x%w%v)
    got = int(sum(x%w%v) + 7*x%w%v(lo0) + 5*x%w%v(hi0))
    do i0 = lo0, hi0
      x%w%v(i0) = 3*i0
    end do
    do i0 = lo0, hi0
      x%w%v(i0) = x%w%v(i0) * 2 + (i0)
    end do
    call equal("nested section_update parallel loop", got, int(sum(x%w%v) + 7*x%w%v(lo0) + 5*x%w%v(hi0)))
  end subroutine
end module
program main
  use variables
  implicit none
  call s13()
  call s14()
  call s15()
  call s16()
  call s17()
  call s18()
  call s19()
  call s20()
  call s21()
  call s22()
  call s23()
  call s24()
  call pass()
end program
